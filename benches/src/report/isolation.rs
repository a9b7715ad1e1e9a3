//! What each way of running a program shields the host with. Facts, not measurements.

/// One way of running a program.
#[derive(Debug)]
pub struct Way {
    /// Its name for a person.
    pub name: &'static str,
    /// The series to the end of its first program.
    pub end: &'static str,
    /// The series of its first line of Python, where the whole start is in it.
    pub python: Option<&'static str>,
    /// Whose kernel the program talks to.
    pub kernel: &'static str,
    /// What it can say to the host's kernel.
    pub surface: &'static str,
    /// What a start finds already done.
    pub state: &'static str,
}

/// All of them, from the strongest wall to the weakest.
pub const WAYS: &[Way] = &[
    Way {
        name: "restored sandbox",
        end: "restore_end",
        python: None,
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "booted system and warmed interpreters, from a memory snapshot",
    },
    Way {
        name: "restored sandbox, monitor waiting",
        end: "restore_prespawned_end",
        python: None,
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "the same, and the monitor's own start",
    },
    Way {
        name: "sandbox claimed from the pool",
        end: "claim_parked_end",
        python: None,
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "the same, and the whole restore: only its new owner's name, time and randomness are missing",
    },
    Way {
        name: "booted virtual machine",
        end: "cold_boot_end",
        python: None,
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "nothing",
    },
    Way {
        name: "container (crun)",
        end: "container_end",
        python: Some("container_python"),
        kernel: "the host's, shared",
        surface: "nearly all of the host's system calls",
        state: "nothing",
    },
    Way {
        name: "confined process (bubblewrap)",
        end: "bubblewrap_end",
        python: Some("bubblewrap_python"),
        kernel: "the host's, shared",
        surface: "nearly all of the host's system calls",
        state: "nothing",
    },
];

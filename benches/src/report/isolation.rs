//! What each way of running a program shields the host with. Facts, not measurements.

/// One way of running a program.
#[derive(Debug)]
pub struct Way {
    /// Its name for a person.
    pub name: &'static str,
    /// The series of its first output.
    pub output: &'static str,
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
        output: "restore_output",
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "booted system and warmed interpreters, from a memory snapshot",
    },
    Way {
        name: "restored sandbox, monitor waiting",
        output: "restore_prespawned_output",
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "the same, and the monitor's own start",
    },
    Way {
        name: "sandbox claimed from the pool",
        output: "claim_parked_output",
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "the same, and the whole restore: only its new owner's name, time and randomness are missing",
    },
    Way {
        name: "booted virtual machine",
        output: "cold_boot_output",
        kernel: "its own, in a virtual machine",
        surface: "none; the monitor's few, filtered, as another user",
        state: "nothing",
    },
    Way {
        name: "container (crun)",
        output: "container_output",
        kernel: "the host's, shared",
        surface: "nearly all of the host's system calls",
        state: "nothing",
    },
    Way {
        name: "confined process (bubblewrap)",
        output: "bubblewrap_output",
        kernel: "the host's, shared",
        surface: "nearly all of the host's system calls",
        state: "nothing",
    },
];

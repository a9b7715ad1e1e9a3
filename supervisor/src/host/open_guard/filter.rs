//! The guard's seccomp program: which calls are stopped, asked about or refused.
//!
//! `openat` for writing is asked about. Other ways to the same end are refused: a program is told that
//! `openat2` and `io_uring` do not exist, and falls back to what the guard sees. So are ways to the host's network and
//! to other processes: a monitor is handed its sockets, and has nobody to look at. And so is what would be left behind in
//! directories and tables that the whole host shares.

/// The kernel's `AUDIT_ARCH_*` of the architecture this was built for.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets into the kernel's `seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
#[cfg(target_arch = "x86_64")]
const SECOND_ARGUMENT: u32 = 16 + 8;
const THIRD_ARGUMENT: u32 = 16 + 2 * 8;

/// Call numbers from here on belong to the x32 convention, which would slip past the list below.
const X32: u32 = 0x4000_0000;

/// What a namespace of its own would take from a monitor, and no monitor needs.
const OUTSIDE: [libc::c_long; 9] = [
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_unshare,
    libc::SYS_setns,
];

/// Names and things that others find by a number, which would fill the host's shared directories and its tables.
const LEFT_BEHIND: &[libc::c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_shmget,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Builds the program.
pub(super) fn build() -> Vec<libc::sock_filter> {
    let writing = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC).cast_unsigned();
    let mut program = Program::default();
    program.load(ARCH);
    program.jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0);
    program.ret(libc::SECCOMP_RET_KILL_PROCESS);
    program.load(NUMBER);
    program.jump(libc::BPF_JGE, X32, 0, 1);
    program.ret(libc::SECCOMP_RET_KILL_PROCESS);
    for absent in [libc::SYS_openat2, libc::SYS_io_uring_setup] {
        program.on_call(absent, errno(libc::ENOSYS));
    }
    for refused in [libc::SYS_truncate, libc::SYS_open_by_handle_at] {
        program.on_call(refused, errno(libc::EACCES));
    }
    for refused in OUTSIDE.iter().chain(LEFT_BEHIND) {
        program.on_call(*refused, errno(libc::EPERM));
    }
    #[cfg(target_arch = "x86_64")]
    {
        program.on_call(libc::SYS_creat, errno(libc::EACCES));
        program.jump(libc::BPF_JEQ, number(libc::SYS_open), 0, 4);
        program.load(SECOND_ARGUMENT);
        program.jump(libc::BPF_JSET, writing, 0, 1);
        program.ret(errno(libc::EACCES));
        program.ret(libc::SECCOMP_RET_ALLOW);
    }
    program.jump(libc::BPF_JEQ, number(libc::SYS_openat), 0, 3);
    program.load(THIRD_ARGUMENT);
    program.jump(libc::BPF_JSET, writing, 0, 1);
    program.ret(libc::SECCOMP_RET_USER_NOTIF);
    program.ret(libc::SECCOMP_RET_ALLOW);
    program.0
}

#[derive(Default)]
struct Program(Vec<libc::sock_filter>);

impl Program {
    fn push(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        let code = u16::try_from(code).expect("operation codes are small constants");
        self.0.push(libc::sock_filter { code, jt, jf, k });
    }

    fn load(&mut self, offset: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    }

    /// Skips `yes` instructions when the test holds, `no` otherwise.
    fn jump(&mut self, test: u32, value: u32, yes: u8, no: u8) {
        self.push(libc::BPF_JMP | test | libc::BPF_K, yes, no, value);
    }

    fn ret(&mut self, action: u32) {
        self.push(libc::BPF_RET | libc::BPF_K, 0, 0, action);
    }

    fn on_call(&mut self, call: libc::c_long, action: u32) {
        self.jump(libc::BPF_JEQ, number(call), 0, 1);
        self.ret(action);
    }
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("call numbers are small constants")
}

fn errno(error: libc::c_int) -> u32 {
    libc::SECCOMP_RET_ERRNO | error.cast_unsigned()
}

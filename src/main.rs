//! The `redrive` program: hands the command line to the library and exits with its code.

fn main() -> std::process::ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    allocator::one_arena();
    redrive::cli::main()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator {
    use std::ffi::c_int;

    const M_ARENA_MAX: c_int = -8;

    /// Letters are read on one thread, made into copies on another and freed on a third. Left alone, glibc keeps
    /// what each thread once used for that thread: half as much again as all that a run needs.
    #[allow(unsafe_code)]
    pub fn one_arena() {
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        // SAFETY: it sets a number of the allocator, before there is a second thread.
        unsafe {
            mallopt(M_ARENA_MAX, 1);
        }
    }
}

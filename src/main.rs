//! The `redrive` program: hands the command line to the library and exits with its code.

fn main() -> std::process::ExitCode {
    redrive::cli::main()
}

/// Letters are read on one thread, made into copies on another and freed on a third. With what glibc brings along,
/// threads either wait for each other or keep what each of them once used (docs/decisions/allocator.md).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator {
    #[global_allocator]
    static JEMALLOC: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

    // Two arenas: a run has three or four threads at work at once. Threads keep no pieces above 4 KiB, and what is free goes
    // back to the system after a tenth of a second: memory stays what a run needs. C reads it up to its zero.
    #[allow(unsafe_code)]
    #[unsafe(export_name = "malloc_conf")]
    pub static SETTINGS: &[u8; 63] = b"narenas:2,lg_tcache_max:12,dirty_decay_ms:100,muzzy_decay_ms:0\0";
}

//! What programs that were measured used of processors, user and system together: it does not grow with what else
//! the machine does, as a clock does.

use std::time::Duration;

/// Used by all children that have ended, in steps of a tick (10 ms): measure several and divide.
pub fn of_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Behind the name, which may hold anything: utime and stime are the 12th and 13th, those of children the next two.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What one of `times` calls of `work` used, on average.
pub fn of_each(times: u32, mut work: impl FnMut()) -> Duration {
    let before = of_children();
    (0..times).for_each(|_| work());
    (of_children() - before) / times
}

//! SIGINT, SIGTERM and SIGHUP, which mean the same: the first asks to stop in order, the second to leave now.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::error::ExitCode;

/// How often the process was told to stop, and by what first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// Signals so far.
    pub times: u32,
    /// The code to end with: that of the first signal.
    pub code: Option<ExitCode>,
}

/// Begins to listen; from here on no signal ends the process by itself.
///
/// # Errors
/// The system does not let us.
pub fn listen() -> std::io::Result<watch::Receiver<Told>> {
    let mut kinds = [
        (signal(SignalKind::interrupt())?, ExitCode::Interrupted),
        (signal(SignalKind::terminate())?, ExitCode::Terminated),
        (signal(SignalKind::hangup())?, ExitCode::HungUp),
    ];
    let (tell, told) = watch::channel(Told::default());
    tokio::spawn(async move {
        loop {
            let [interrupt, terminate, hang_up] = &mut kinds;
            let code = tokio::select! {
                Some(()) = interrupt.0.recv() => interrupt.1,
                Some(()) = terminate.0.recv() => terminate.1,
                Some(()) = hang_up.0.recv() => hang_up.1,
                () = tell.closed() => return,
                else => return,
            };
            tell.send_modify(|told| {
                told.times += 1;
                told.code.get_or_insert(code);
            });
        }
    });
    Ok(told)
}

//! A proxy between the program and a broker that holds, breaks, delays a commit or loses the answer to it. Clients come to it
//! because the broker's second listener advertises its port.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The request that ends a transaction (`EndTxn`).
const END: u16 = 26;
/// The request that writes records, to one partition each.
const PRODUCE: u16 = 0;
/// The request for records (`Fetch`).
const FETCH: u16 = 1;

#[derive(Default)]
struct State {
    holding: AtomicBool,
    refusing: AtomicBool,
    /// Answers to commits that are still to be lost.
    to_lose: AtomicU32,
    lost: AtomicU32,
    /// For so many milliseconds a commit of copies is held back, after so many others.
    late: AtomicU32,
    before_late: AtomicU32,
    /// Until when: a client that asks again meanwhile, on another connection, waits as well.
    late_until: Mutex<Option<Instant>>,
    /// Writes since the last commit: of copies and their marks two at least, of a heartbeat one.
    writes: AtomicU32,
    delayed: AtomicU32,
    /// The broker says that it knows no newer version of this call.
    caps: Mutex<Option<(u16, u16)>>,
    open: Mutex<Vec<TcpStream>>,
    /// Of each connection, whether its requests for records are to be lost.
    deaf: Mutex<Vec<Arc<AtomicBool>>>,
}

/// It lives as long as the test process.
#[derive(Clone)]
pub struct Proxy {
    state: Arc<State>,
    pub url: String,
}

impl Proxy {
    pub fn start(port: &str, upstream: &str) -> Self {
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
        let (state, upstream) = (Arc::new(State::default()), upstream.to_owned());
        let proxy = Self { state: Arc::clone(&state), url: format!("kafka://127.0.0.1:{port}") };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(&upstream) else { continue };
                if state.refusing.load(Ordering::SeqCst) {
                    continue;
                }
                let mut open = state.open.lock().unwrap();
                open.push(client.try_clone().unwrap());
                open.push(server.try_clone().unwrap());
                drop(open);
                let losing = Arc::new(AtomicBool::new(false));
                let deaf = Arc::new(AtomicBool::new(false));
                state.deaf.lock().unwrap().push(Arc::clone(&deaf));
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (shared, mark) = (Arc::clone(&state), Arc::clone(&losing));
                std::thread::spawn(move || requests(from, to, &shared, (&mark, &deaf)));
                let shared = Arc::clone(&state);
                std::thread::spawn(move || answers(server, client, &shared, &losing));
            }
        });
        proxy
    }

    /// Nothing passes for so long; connections stay.
    pub fn freeze(&self, by: Duration) {
        self.state.holding.store(true, Ordering::SeqCst);
        std::thread::sleep(by);
        self.state.holding.store(false, Ordering::SeqCst);
    }

    /// Every connection ends, and new ones are refused for so long.
    pub fn reset(&self, by: Duration) {
        self.state.refusing.store(true, Ordering::SeqCst);
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        std::thread::sleep(by);
        self.state.refusing.store(false, Ordering::SeqCst);
    }

    /// The next `count` commits arrive, and their answers do not.
    pub fn lose_commits(&self, count: u32) {
        self.state.to_lose.fetch_add(count, Ordering::SeqCst);
    }

    /// After `others` commits of copies one arrives so much later, and none before it.
    pub fn delay_commit(&self, others: u32, by: Duration) {
        self.state.before_late.store(others, Ordering::SeqCst);
        self.state.late.store(u32::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Requests for records that come by a connection that is open now arrive nowhere; all else does, and so does all
    /// that comes by a newer one.
    pub fn deafen(&self) {
        self.state.deaf.lock().unwrap().drain(..).for_each(|deaf| deaf.store(true, Ordering::SeqCst));
    }

    /// Of this call only versions up to this one are known, for connections that are made from now on.
    pub fn know_only(&self, call: u16, version: u16) {
        *self.state.caps.lock().unwrap() = Some((call, version));
    }

    pub fn delayed(&self) -> u32 {
        self.state.delayed.load(Ordering::SeqCst)
    }

    pub fn lost(&self) -> u32 {
        self.state.lost.load(Ordering::SeqCst)
    }
}

fn wait(state: &State) {
    while state.holding.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Request by request: length, then the number of the call.
fn requests(
    mut from: TcpStream,
    mut to: TcpStream,
    state: &State,
    (losing, deaf): (&AtomicBool, &AtomicBool),
) {
    let mut head = [0; 6];
    let mut body = Vec::new();
    while from.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        body.resize(length - 2, 0);
        if from.read_exact(&mut body).is_err() {
            break;
        }
        wait(state);
        let call = u16::from_be_bytes([head[4], head[5]]);
        if call == FETCH && deaf.load(Ordering::SeqCst) {
            continue;
        }
        let commits = call == END;
        if call == PRODUCE {
            state.writes.fetch_add(1, Ordering::SeqCst);
        }
        let take = |left: u32| left.checked_sub(1);
        let copies = commits && state.writes.swap(0, Ordering::SeqCst) > 1;
        let late = state.late.load(Ordering::SeqCst);
        let others = || state.before_late.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        if copies && late > 0 && others().is_err() {
            state.late.store(0, Ordering::SeqCst);
            state.delayed.fetch_add(1, Ordering::SeqCst);
            *state.late_until.lock().unwrap() = Some(Instant::now() + Duration::from_millis(u64::from(late)));
        }
        let until = *state.late_until.lock().unwrap();
        if let Some(until) = until.filter(|_| commits) {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        if commits && state.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            losing.store(true, Ordering::SeqCst);
        }
        if to.write_all(&head).and_then(|()| to.write_all(&body)).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn answers(mut from: TcpStream, mut to: TcpStream, state: &State, losing: &AtomicBool) {
    let mut part = [0; 65_536];
    let mut first = true;
    while let Ok(length) = from.read(&mut part) {
        wait(state);
        if std::mem::take(&mut first)
            && let Some((call, version)) = *state.caps.lock().unwrap()
        {
            cap(&mut part[..length], call, version);
        }
        if losing.load(Ordering::SeqCst) {
            state.lost.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if length == 0 || to.write_all(&part[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// The first answer of a connection says which versions of each call the broker knows: length, number of the request,
/// error, how many calls, then for each the call, its oldest and its newest version, and a byte of nothing.
fn cap(answer: &mut [u8], call: u16, version: u16) {
    let calls = usize::from(answer[10]).saturating_sub(1);
    let entry = (0..calls).map(|n| 11 + 7 * n).find(|at| answer[*at..at + 2] == call.to_be_bytes());
    let at = entry.expect("the broker tells of this call");
    answer[at + 4..at + 6].copy_from_slice(&version.to_be_bytes());
}

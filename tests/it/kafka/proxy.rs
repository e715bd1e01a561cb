//! A proxy between the program and a broker that holds, breaks, or loses the answer to a commit. Clients come to it
//! because the broker's second listener advertises its port.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The request that ends a transaction (`EndTxn`).
const END: u16 = 26;

#[derive(Default)]
struct State {
    holding: AtomicBool,
    refusing: AtomicBool,
    /// Answers to commits that are still to be lost.
    to_lose: AtomicU32,
    lost: AtomicU32,
    open: Mutex<Vec<TcpStream>>,
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
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (shared, mark) = (Arc::clone(&state), Arc::clone(&losing));
                std::thread::spawn(move || requests(from, to, &shared, &mark));
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
fn requests(mut from: TcpStream, mut to: TcpStream, state: &State, losing: &AtomicBool) {
    let mut head = [0; 6];
    let mut body = Vec::new();
    while from.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        body.resize(length - 2, 0);
        if from.read_exact(&mut body).is_err() {
            break;
        }
        wait(state);
        let commits = u16::from_be_bytes([head[4], head[5]]) == END;
        let take = |left: u32| left.checked_sub(1);
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
    while let Ok(length) = from.read(&mut part) {
        wait(state);
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

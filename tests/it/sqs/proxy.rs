//! A fault proxy in front of an emulator: forwards each call, and to some does what no emulator does by itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What is done to a call.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The entry with this index is not forwarded and is in `Failed`, with this `SenderFault`.
    Entry(usize, bool),
    /// Forwarded; the connection ends before an answer.
    Lost,
    /// Not forwarded: this status and error code.
    Refused(u16, &'static str),
    /// Not forwarded: no messages.
    Empty,
    /// Not forwarded: all entries `Successful`.
    Dropped,
    /// Forwarded; the answer comes so many milliseconds later.
    Slow(u64),
    /// Not forwarded: the last answer of this action that had messages, once more.
    Again,
    /// Forwarded; one message of the answer is taken away and deleted by somebody else.
    Vanished,
    /// Forwarded; so many are said to be visible and in flight.
    Counts(u64, u64),
    /// Forwarded with receipts that have run out.
    RunOut,
}

/// One rule: to the `nth` call (from 1) of `action`, as often as `times`.
#[derive(Debug, Clone)]
pub struct Rule {
    pub action: &'static str,
    pub nth: usize,
    pub times: usize,
    pub fault: Fault,
    /// Counted from where a look has given back its letters: the calls of the run.
    pub of_run: bool,
}

impl Rule {
    /// A rule.
    pub fn on(action: &'static str, nth: usize, times: usize, fault: Fault) -> Self {
        Self { action, nth, times, fault, of_run: false }
    }

    /// The same for calls behind the look.
    pub fn of_run(self) -> Self {
        Self { of_run: true, ..self }
    }
}

/// A running proxy; it lives as long as the test process.
pub struct Proxy {
    pub endpoint: String,
    calls: Arc<Mutex<Vec<String>>>,
    bodies: Arc<Mutex<Vec<(String, String)>>>,
}

/// What the connections of a proxy share.
#[derive(Default)]
struct Memory {
    calls: Arc<Mutex<Vec<String>>>,
    /// Sends and receives, as they came.
    bodies: Arc<Mutex<Vec<(String, String)>>>,
    /// The last answer to a receive that had messages.
    received: Mutex<String>,
}

impl Proxy {
    /// Starts one in front of `upstream`. `hide`: receives hide for so many seconds, whatever was asked for, so
    /// that what a killed process held comes back in the time of a test.
    pub fn start(upstream: &str, rules: Vec<Rule>, hide: Option<u32>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Memory::default());
        let (calls, bodies) = (Arc::clone(&seen.calls), Arc::clone(&seen.bodies));
        let upstream = upstream.trim_start_matches("http://").to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (upstream, rules, seen) = (upstream.clone(), rules.clone(), Arc::clone(&seen));
                std::thread::spawn(move || {
                    // A client that goes away ends its own connection only.
                    let _ = serve(client.unwrap(), &upstream, &rules, hide, &seen);
                });
            }
        });
        Self { endpoint, calls, bodies }
    }

    /// All calls so far, in the order in which they came.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// What was asked for by calls of an action that sends or receives.
    pub fn bodies(&self, action: &str) -> Vec<String> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().filter(|(of, _)| of == action).map(|(_, body)| body.clone()).collect()
    }

    /// How often an action was called.
    pub fn count(&self, action: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| *call == action).count()
    }
}

/// Head and body of a message that is there to its end; a chunked body is put together.
pub fn split(whole: &[u8]) -> (String, Vec<u8>) {
    let end = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&whole[..end]).into_owned();
    let mut rest = &whole[end + 4..];
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return (head, rest.to_vec());
    }
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            return (head, body);
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 2 + size + 2..];
    }
}

fn read_request(stream: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0u8; 65_536];
    loop {
        let n = stream.read(&mut chunk)?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..n]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length: usize = header(&head, "content-length").unwrap_or("0").parse().unwrap();
        if bytes.len() >= end + 4 + length {
            return Ok((head, bytes[end + 4..end + 4 + length].to_vec()));
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn serve(
    mut client: TcpStream,
    upstream: &str,
    rules: &[Rule],
    hide: Option<u32>,
    memory: &Memory,
) -> std::io::Result<()> {
    let (head, body) = read_request(&mut client)?;
    let action =
        header(&head, "x-amz-target").unwrap_or_default().trim_start_matches("AmazonSQS.").to_owned();
    let (nth, nth_of_run) = {
        let mut seen = memory.calls.lock().unwrap();
        seen.push(action.clone());
        let looked = seen.iter().position(|call| call == "ChangeMessageVisibilityBatch");
        let count = |calls: &[String]| calls.iter().filter(|call| **call == action).count();
        (count(&seen), looked.map_or(0, |at| count(&seen[at..])))
    };
    let fault = rules
        .iter()
        .find(|rule| {
            let nth = if rule.of_run { nth_of_run } else { nth };
            rule.action == action && (rule.nth..rule.nth + rule.times).contains(&nth)
        })
        .map(|rule| rule.fault.clone());
    if action.starts_with("SendMessage") || action == "ReceiveMessage" {
        let text = String::from_utf8_lossy(&body).into_owned();
        memory.bodies.lock().unwrap().push((action.clone(), text));
    }
    let mut request: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if let (Some(hide), "ReceiveMessage") = (hide, action.as_str()) {
        request["VisibilityTimeout"] = json!(hide);
    }
    let mut out = None;
    let ids = |request: &Value| -> Vec<Value> {
        request["Entries"].as_array().into_iter().flatten().map(|entry| entry["Id"].clone()).collect()
    };
    match &fault {
        Some(Fault::Refused(status, code)) => {
            let text = json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": "as the test asked"});
            return answer(&mut client, *status, &text.to_string());
        }
        Some(Fault::Empty) => return answer(&mut client, 200, "{}"),
        Some(Fault::Again) => {
            let again = memory.received.lock().unwrap().clone();
            return answer(&mut client, 200, if again.is_empty() { "{}" } else { &again });
        }
        Some(Fault::RunOut) => {
            for entry in request["Entries"].as_array_mut().unwrap() {
                entry["ReceiptHandle"] = json!("ran-out");
            }
        }
        Some(Fault::Dropped) => {
            let done: Vec<Value> = ids(&request).into_iter().map(|id| json!({"Id": id})).collect();
            return answer(&mut client, 200, &json!({"Successful": done, "Failed": []}).to_string());
        }
        Some(Fault::Entry(at, _)) => {
            let entries = request["Entries"].as_array_mut().unwrap();
            if *at < entries.len() {
                out = Some(entries.remove(*at)["Id"].clone());
            }
        }
        _ => {}
    }
    let (status, mut text) = match request["Entries"].as_array() {
        Some(none) if none.is_empty() => (200, json!({"Successful": [], "Failed": []}).to_string()),
        _ => forward(upstream, &head, &request.to_string())?,
    };
    if let (Some(id), Some(Fault::Entry(_, sender))) = (out, &fault) {
        let mut parsed: Value = serde_json::from_str(&text).unwrap();
        let failed = json!({"Id": id, "Code": if *sender { "InvalidMessageContents" } else { "InternalError" },
                            "SenderFault": sender, "Message": "as the test asked"});
        match parsed["Failed"].as_array_mut() {
            Some(list) => list.push(failed),
            None => parsed["Failed"] = json!([failed]),
        }
        text = parsed.to_string();
    }
    match fault {
        Some(Fault::Lost) => return Ok(()),
        Some(Fault::Slow(millis)) => std::thread::sleep(std::time::Duration::from_millis(millis)),
        Some(Fault::Counts(visible, in_flight)) => {
            let mut parsed: Value = serde_json::from_str(&text).unwrap();
            for (end, count) in [("", visible), ("NotVisible", in_flight)] {
                parsed["Attributes"][format!("ApproximateNumberOfMessages{end}")] = json!(count.to_string());
            }
            text = parsed.to_string();
        }
        Some(Fault::Vanished) => {
            let mut parsed: Value = serde_json::from_str(&text).unwrap();
            if let Some(messages) = parsed["Messages"].as_array_mut()
                && let Some(gone) = messages.pop()
            {
                let delete = json!({"QueueUrl": request["QueueUrl"], "ReceiptHandle": gone["ReceiptHandle"]});
                let head = head.replace("AmazonSQS.ReceiveMessage", "AmazonSQS.DeleteMessage");
                assert_eq!(forward(upstream, &head, &delete.to_string())?.0, 200);
            }
            text = parsed.to_string();
        }
        _ => {}
    }
    if action == "ReceiveMessage" && text.contains("\"Messages\"") {
        memory.received.lock().unwrap().clone_from(&text);
    }
    answer(&mut client, status, &text)
}

fn forward(upstream: &str, head: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut server = TcpStream::connect(upstream)?;
    let mut request = format!(
        "POST / HTTP/1.1\r\nHost: {upstream}\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    for name in ["Content-Type", "X-Amz-Target", "Authorization", "X-Amz-Date"] {
        if let Some(value) = header(head, name) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    write!(server, "{request}\r\n{body}")?;
    let mut whole = Vec::new();
    server.read_to_end(&mut whole)?;
    let (head, body) = split(&whole);
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(500);
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn answer(client: &mut TcpStream, status: u16, body: &str) -> std::io::Result<()> {
    write!(
        client,
        "HTTP/1.1 {status} X\r\nContent-Type: application/x-amz-json-1.0\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

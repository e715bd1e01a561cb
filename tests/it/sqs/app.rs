//! An application beside redrive: it talks to an emulator in plain HTTP, so that what is proved does not rest on
//! the client that redrive uses.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

/// An application at one endpoint.
pub struct App {
    address: String,
    region: &'static str,
}

/// A message as an application receives it.
#[derive(Debug, Clone)]
pub struct Got {
    pub body: String,
    pub attributes: Value,
    pub system: Value,
    pub system_id: String,
    pub handle: String,
}

impl Got {
    pub fn group(&self) -> &str {
        self.system["MessageGroupId"].as_str().unwrap_or_default()
    }
}

impl App {
    /// `endpoint` as in the environment: `http://127.0.0.1:PORT`.
    pub fn at(endpoint: &str) -> Self {
        Self::in_region(endpoint, "us-east-1")
    }

    /// The same in another region, where an emulator keeps them apart.
    pub fn in_region(endpoint: &str, region: &'static str) -> Self {
        Self { address: endpoint.trim_start_matches("http://").to_owned(), region }
    }

    /// One call; panics on an answer that is not 200.
    pub fn call(&self, action: &str, request: &Value) -> Value {
        let body = request.to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: AmazonSQS.{action}\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=test/20260101/{}/sqs/aws4_request, SignedHeaders=host, Signature=0\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.region,
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let (head, body) = super::proxy::split(&answer);
        assert!(head.starts_with("HTTP/1.1 200"), "{action}: {head}\n{}", String::from_utf8_lossy(&body));
        if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() }
    }

    pub fn create(&self, queue: &str) {
        let attributes = if queue.ends_with(".fifo") { json!({"FifoQueue": "true"}) } else { json!({}) };
        self.call("CreateQueue", &json!({"QueueName": queue, "Attributes": attributes}));
    }

    /// Deletes a queue with all that is in it.
    pub fn remove(&self, queue: &str) {
        self.call("DeleteQueue", &json!({"QueueUrl": self.url(queue)}));
    }

    /// One attribute of a queue.
    pub fn attribute(&self, queue: &str, name: &str) -> String {
        let asked = json!({"QueueUrl": self.url(queue), "AttributeNames": ["All"]});
        let answer = self.call("GetQueueAttributes", &asked);
        answer["Attributes"][name].as_str().unwrap_or_default().to_owned()
    }

    /// Sets attributes of a queue.
    pub fn set(&self, queue: &str, attributes: &Value) {
        self.call("SetQueueAttributes", &json!({"QueueUrl": self.url(queue), "Attributes": attributes}));
    }

    /// The ARN of a queue.
    pub fn arn(&self, queue: &str) -> String {
        let asked = json!({"QueueUrl": self.url(queue), "AttributeNames": ["QueueArn"]});
        self.call("GetQueueAttributes", &asked)["Attributes"]["QueueArn"].as_str().unwrap().to_owned()
    }

    pub fn url(&self, queue: &str) -> String {
        self.call("GetQueueUrl", &json!({"QueueName": queue}))["QueueUrl"].as_str().unwrap().to_owned()
    }

    /// Sends one message; a FIFO queue gets `dedup` as its deduplication id. Returns the message's id.
    pub fn send(
        &self,
        queue: &str,
        body: &str,
        group: Option<&str>,
        dedup: &str,
        attributes: &Value,
    ) -> String {
        let mut request =
            json!({"QueueUrl": self.url(queue), "MessageBody": body, "MessageAttributes": attributes});
        if let Some(group) = group {
            request["MessageGroupId"] = json!(group);
        }
        if queue.ends_with(".fifo") {
            request["MessageDeduplicationId"] = json!(dedup);
        }
        self.call("SendMessage", &request)["MessageId"].as_str().unwrap().to_owned()
    }

    /// One receive of up to ten.
    pub fn receive(&self, queue: &str, hide: u32) -> Vec<Got> {
        let answer = self.call(
            "ReceiveMessage",
            &json!({"QueueUrl": self.url(queue), "MaxNumberOfMessages": 10, "VisibilityTimeout": hide,
                    "MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}),
        );
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        answer["Messages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|raw| Got {
                body: text(&raw["Body"]),
                attributes: raw["MessageAttributes"].clone(),
                system: raw["Attributes"].clone(),
                system_id: text(&raw["MessageId"]),
                handle: text(&raw["ReceiptHandle"]),
            })
            .collect()
    }

    /// Fails: what was received comes back at once.
    pub fn fail(&self, queue: &str, got: &[Got]) {
        for got in got {
            self.call(
                "ChangeMessageVisibility",
                &json!({"QueueUrl": self.url(queue), "ReceiptHandle": got.handle, "VisibilityTimeout": 0}),
            );
        }
    }

    /// Handles: what was received is deleted.
    pub fn delete(&self, queue: &str, got: &[Got]) {
        for got in got {
            self.call("DeleteMessage", &json!({"QueueUrl": self.url(queue), "ReceiptHandle": got.handle}));
        }
    }

    /// Takes all visible messages out, in the order in which they come.
    pub fn take_all(&self, queue: &str) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            let some = self.receive(queue, 30);
            if some.is_empty() {
                return all;
            }
            self.delete(queue, &some);
            all.extend(some);
        }
    }

    /// Messages in a queue: visible, in flight and delayed ones.
    pub fn depth(&self, queue: &str) -> u64 {
        let asked = json!({"QueueUrl": self.url(queue), "AttributeNames": ["All"]});
        let answer = self.call("GetQueueAttributes", &asked);
        ["", "NotVisible", "Delayed"]
            .iter()
            .map(|end| {
                let count = &answer["Attributes"][format!("ApproximateNumberOfMessages{end}")];
                count.as_str().unwrap_or("0").parse::<u64>().unwrap()
            })
            .sum()
    }
}

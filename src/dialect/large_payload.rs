//! Large payloads kept outside the queue (S17): the body only points at an object. Pointer and attribute
//! travel as they are; the object must outlive the redrive, and is never touched.

use serde_json::Value as Json;

use super::{Buried, Dialect, Layer, Look, Mark, Testimony, sns};
use crate::failure::{Prospect, Sureness};
use crate::letter::Header;

/// Classes that the body names: today's and the old one.
const CLASSES: &[&str] =
    &["software.amazon.payloadoffloading.PayloadS3Pointer", "com.amazon.sqs.javamessaging.MessageS3Pointer"];

/// A pointer is short.
const LONGEST: usize = 8 << 10;

/// See the file's head.
pub(super) struct LargePayload;

impl Dialect for LargePayload {
    fn name(&self) -> &'static str {
        "large-payload"
    }

    fn about(&self) -> &'static str {
        "a pointer to a payload in S3, by the SQS extended client"
    }

    fn marks(&self) -> &'static [Mark] {
        &[
            Mark::Header("ExtendedPayloadSize"),
            Mark::Header("SQSLargePayloadSize"),
            Mark::Field("TopicArn"),
            Mark::Start("[\"software.amazon.payloadoffloading"),
            Mark::Start("[\"com.amazon.sqs.javamessaging"),
        ]
    }

    fn layer(&self) -> Layer {
        Layer::Envelope
    }

    fn recognise(&self, letter: &Look<'_>) -> Option<(Sureness, String)> {
        let sized = ["ExtendedPayloadSize", "SQSLargePayloadSize"];
        if pointer(letter).is_some() {
            return Some((Sureness::Sure, "a pointer to S3 in the body".to_owned()));
        }
        let name = sized.into_iter().find(|name| letter.headers().has(name))?;
        Some((Sureness::Likely, format!("attribute {name}")))
    }

    fn read(&self, letter: &Look<'_>, says: &mut Testimony) {
        says.buried = Buried::ByBroker;
        let at =
            pointer(letter).unwrap_or_else(|| "an object that the body does not name readably".to_owned());
        says.prospect(Prospect::Pointer { at });
    }

    fn owns(&self, _header: &Header) -> bool {
        false
    }
}

/// `s3://bucket/key`.
fn pointer(letter: &Look<'_>) -> Option<String> {
    // The same client writes through SNS.
    let inside = sns::message(letter).filter(|text| text.starts_with("[\"") && text.len() <= LONGEST);
    let inside: Option<Json> = inside.and_then(|text| serde_json::from_str(text).ok());
    let pointer = inside.as_ref().or_else(|| letter.json())?;
    let [Json::String(class), place] = pointer.as_array()?.as_slice() else { return None };
    if !CLASSES.contains(&class.as_str()) {
        return None;
    }
    Some(format!("s3://{}/{}", place["s3BucketName"].as_str()?, place["s3Key"].as_str()?))
}

//! Trace ids, whoever writes them: W3C `traceparent`, B3, AWS X-Ray, Jaeger, Datadog. They travel: a
//! redrive belongs to the story that it continues.

use super::Look;

/// The trace ids that a letter carries, the widest standard first.
pub(super) fn of(letter: &Look<'_>) -> Vec<String> {
    let headers = || letter.headers().iter().chain(letter.properties());
    let named = |name: &str| {
        headers()
            .find(|h| h.name.as_bytes().eq_ignore_ascii_case(name.as_bytes()))
            .and_then(|h| h.value.text())
    };
    if !headers().any(|header| may_be(header.name.as_bytes())) {
        return Vec::new();
    }
    let datadog = || {
        let json: serde_json::Value = serde_json::from_str(named("_datadog")?).ok()?;
        let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
        text("traceparent")
            .and_then(|text| of_traceparent(&text))
            .or_else(|| of_datadog(&text("x-datadog-trace-id")?))
    };
    [
        named("traceparent").and_then(of_traceparent),
        named("b3").and_then(of_b3),
        named("x-b3-traceid").filter(|id| is_hex(id, &[16, 32])).map(str::to_lowercase),
        named("AWSTraceHeader").and_then(of_xray),
        named("x-amzn-trace-id").and_then(of_xray),
        named("uber-trace-id").and_then(of_jaeger),
        named("x-datadog-trace-id").and_then(of_datadog),
        datadog(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn may_be(name: &[u8]) -> bool {
    matches!(name.first(), Some(b't' | b'T' | b'b' | b'B' | b'x' | b'X' | b'A' | b'a' | b'u' | b'_'))
}

/// `00-<32 hex>-<16 hex>-<2 hex>`; also in the quotes that a JSON converter puts around it.
pub(super) fn of_traceparent(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('"');
    let mut parts = text.split('-');
    let (version, id, span) = (parts.next()?, parts.next()?, parts.next()?);
    let good = is_hex(version, &[2]) && is_hex(id, &[32]) && is_hex(span, &[16]);
    (good && id.bytes().any(|b| b != b'0')).then(|| id.to_lowercase())
}

/// `<trace>-<span>[-…]`; `0` alone says that nothing is traced.
fn of_b3(text: &str) -> Option<String> {
    let (id, _) = text.split_once('-')?;
    is_hex(id, &[16, 32]).then(|| id.to_lowercase())
}

/// `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=…`.
pub(super) fn of_xray(text: &str) -> Option<String> {
    let root = text.split(';').find_map(|part| part.trim().strip_prefix("Root="))?;
    (root.len() == 35 && root.starts_with("1-") && root.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'))
        .then(|| root.to_owned())
}

/// `<trace>:<span>:<parent>:<flags>`, also with the colons escaped.
fn of_jaeger(text: &str) -> Option<String> {
    let id = text.split([':', '%']).next()?;
    (!id.is_empty() && id.len() <= 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) && text.len() > id.len())
        .then(|| id.to_lowercase())
}

/// A decimal number of 64 bits.
fn of_datadog(text: &str) -> Option<String> {
    text.parse::<u64>().ok().map(|id| id.to_string())
}

fn is_hex(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_trace_ids() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(of_traceparent(&format!("00-{id}-00f067aa0ba902b7-01")).as_deref(), Some(id));
        assert_eq!(of_traceparent(&format!("\"00-{id}-00f067aa0ba902b7-01\"")).as_deref(), Some(id));
        assert_eq!(of_traceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"), None);
        assert_eq!(of_traceparent("null"), None);
        assert_eq!(of_b3(&format!("{id}-00f067aa0ba902b7-1")).as_deref(), Some(id));
        assert_eq!(of_b3("0"), None);
        let root = "1-5759e988-bd862e3fe1be46a994272793";
        assert_eq!(of_xray(&format!("Self=1-2-3;Root={root};Sampled=1")).as_deref(), Some(root));
        assert_eq!(of_jaeger("abcdef12:1:0:1").as_deref(), Some("abcdef12"));
        assert_eq!(of_datadog("18446744073709551615").as_deref(), Some("18446744073709551615"));
        assert_eq!(of_datadog("x"), None);
    }
}

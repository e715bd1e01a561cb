//! RedrivePolicy and RedriveAllowPolicy: JSON in an attribute, compared by meaning (S32): key order does not
//! count, numbers may be text.

use serde_json::Value;

/// Where a queue's letters go after how many receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redrive {
    pub(super) target_arn: String,
    pub(super) max_receive_count: u32,
}

/// Reads a RedrivePolicy.
pub(super) fn redrive(text: &str) -> Option<Redrive> {
    let json: Value = serde_json::from_str(text).ok()?;
    Some(Redrive {
        target_arn: json.get("deadLetterTargetArn")?.as_str()?.to_owned(),
        max_receive_count: number(json.get("maxReceiveCount")?)?,
    })
}

/// `maxReceiveCount` of a RedrivePolicy.
pub(super) fn max_receive_count(text: &str) -> Option<u32> {
    redrive(text).map(|policy| policy.max_receive_count)
}

fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => u32::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

impl Redrive {
    /// As SQS takes it.
    pub(super) fn text(&self) -> String {
        serde_json::json!({
            "deadLetterTargetArn": self.target_arn,
            "maxReceiveCount": self.max_receive_count.to_string(),
        })
        .to_string()
    }

    /// As people read it beside the queue that has it, and as it is compared: `orders-dlq after 5 receives`.
    pub(super) fn words(&self, own_arn: &str) -> String {
        format!("{} after {} receives", beside(own_arn, &self.target_arn), self.max_receive_count)
    }
}

/// Last part of an ARN.
pub(super) fn name_of(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

/// A queue as it is named beside another one: a namesake of another account, region or partition by its whole ARN.
fn beside<'a>(own_arn: &str, arn: &'a str) -> &'a str {
    let name = name_of(arn);
    if arn == name || sister(own_arn, name).as_deref() == Some(arn) { name } else { arn }
}

/// The account in an ARN.
pub(super) fn account_of(arn: &str) -> Option<&str> {
    arn.split(':').nth(4).filter(|account| !account.is_empty())
}

/// The ARN of a sister queue: same partition, region and account.
pub(super) fn sister(arn: &str, name: &str) -> Option<String> {
    let (prefix, _) = arn.rsplit_once(':')?;
    Some(format!("{prefix}:{name}"))
}

/// As people read a RedriveAllowPolicy, and as it is compared: `all`, `none`, or the sources sorted.
pub(super) fn allow_words(own_arn: &str, text: &str) -> Option<String> {
    let json: Value = serde_json::from_str(text).ok()?;
    match json.get("redrivePermission")?.as_str()? {
        "allowAll" => Some("all".to_owned()),
        "denyAll" => Some("none".to_owned()),
        "byQueue" => {
            let mut names: Vec<&str> = json
                .get("sourceQueueArns")?
                .as_array()?
                .iter()
                .filter_map(|arn| arn.as_str().map(|arn| beside(own_arn, arn)))
                .collect();
            names.sort_unstable();
            Some(names.join(", "))
        }
        _ => None,
    }
}

/// A RedriveAllowPolicy for just these sources.
pub(super) fn allow(arns: &[String]) -> String {
    serde_json::json!({"redrivePermission": "byQueue", "sourceQueueArns": arns}).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn s32_policies_are_compared_by_meaning() {
        let a = redrive(r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:0:q-dlq","maxReceiveCount":"5"}"#)
            .unwrap();
        let b =
            redrive(r#"{ "maxReceiveCount": 5, "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:0:q-dlq" }"#)
                .unwrap();
        assert_eq!(a, b);
        assert_eq!(a.words("arn:aws:sqs:eu-west-1:0:q"), "q-dlq after 5 receives");
        // A namesake elsewhere is another queue.
        for own in ["arn:aws:sqs:eu-west-1:1:q", "arn:aws:sqs:eu-west-2:0:q", "arn:aws-cn:sqs:eu-west-1:0:q"]
        {
            assert_eq!(a.words(own), "arn:aws:sqs:eu-west-1:0:q-dlq after 5 receives");
        }
        let both =
            r#"{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:r:1:q","arn:aws:sqs:r:0:q"]}"#;
        assert_eq!(allow_words("arn:aws:sqs:r:0:q-dlq", both).unwrap(), "arn:aws:sqs:r:1:q, q");
        assert_eq!(redrive(&a.text()), Some(b));
        assert_eq!(redrive("nonsense"), None);
    }

    #[test]
    fn arns_of_other_partitions_keep_theirs() {
        assert_eq!(sister("arn:aws-cn:sqs:cn-north-1:1:a", "b").unwrap(), "arn:aws-cn:sqs:cn-north-1:1:b");
    }
}

//! One letter for programs.

use serde_json::{Value as Json, json};

use super::Show;
use super::values::{bytes_json, value_json};
use crate::letter::Headers;

impl Show<'_> {
    /// The document of `show -o json`.
    pub(super) fn json(&self) -> Json {
        let (letter, raw) = (self.letter, &self.letter.raw);
        json!({
            "schema": "redrive.show.v1",
            "channel": self.place.channel,
            "broker": self.place.broker,
            "protected": self.place.protected,
            "at": self.place.at,
            "letter": raw.id,
            "queue": raw.facts.queue,
            "place": raw.facts.place,
            "position": raw.position,
            "cause": letter.cause,
            "event_id": {"value": letter.event_id.value, "from": letter.event_id_from(self.channel)},
            "group": {"value": letter.group.value, "from": letter.group_from(self.channel)},
            "died": letter.died_at.map(|(at, _)| at),
            "died_from": letter.died_at.map(|(_, whose)| whose),
            "expires": letter.expires_at(),
            "redriven": letter.redriven,
            "max_redrives": self.channel.redrive.max_redrives.value,
            "sent_by": letter.sent_by.as_ref().map(|(run, seq)| json!({"run": run, "seq": seq})),
            "moved_by": raw.facts.moved_by,
            "deliveries": raw.facts.deliveries,
            "context": letter.context,
            "key": raw.message.key.as_deref().map(bytes_json),
            "headers": self.headers_json("header", &raw.message.headers),
            "properties": self.headers_json("property", &raw.message.properties),
            "body": raw.message.body.as_deref().map(bytes_json),
            "body_len": raw.body_len,
            "size": raw.size(),
            "redrive": self.deed,
            "readers": self.readers,
            "order": self.neighbours,
            "looking": {"changed": self.changed},
            "next": self.next,
        })
    }

    fn headers_json(&self, word: &str, headers: &Headers) -> Vec<Json> {
        let one = |header: &crate::letter::Header| {
            let owner = self.owner(header, word);
            json!({
                "name": header.name,
                "type": header.value.type_name(),
                "value": value_json(&header.value),
                "travels": owner.is_none(),
                "owner": owner,
            })
        };
        headers.iter().map(one).collect()
    }
}

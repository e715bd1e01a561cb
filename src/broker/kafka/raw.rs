//! The admin calls that the client crate does not wrap, straight from librdkafka: topic ids, topic settings
//! told apart from missing topics, changing single settings, and consumer groups with state and type.
//!
//! The one module of this program with `unsafe`. Every pointer that librdkafka hands out is copied from
//! before the event that owns it is destroyed; every object made here is freed here.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::bindings as rd;
use rdkafka::error::RDKafkaErrorCode;

use crate::letter::{Headers, Short, Value};

/// A broker's answer for one topic or call: code and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawError {
    pub(super) code: RDKafkaErrorCode,
    pub(super) text: String,
}

/// A topic as described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) topic: String,
    /// The topic's id, base64 with `-` and `_`: another topic of the same name has another one.
    pub(super) id: String,
    pub(super) partitions: i32,
    pub(super) replication: i32,
}

/// What the broker said of one topic.
pub(super) type Outcome = (String, Result<Described, RawError>);

/// A setting of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) value: Option<String>,
    /// Set on the topic itself, not by a default.
    pub(super) own: bool,
}

/// A consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) group: String,
    pub(super) state: String,
    /// `Consumer` or `Classic`; share groups are not in the list.
    pub(super) kind: String,
}

/// A librdkafka handle that outlives the calls made with it.
pub(super) struct Handle(*mut rd::rd_kafka_t);

// SAFETY: librdkafka's handles may be used from any thread; the owner outlives the call (see `Handle::of`).
unsafe impl Send for Handle {}

impl Handle {
    /// Borrows the handle of a client; the caller keeps the client until the last call has returned.
    pub(super) fn of(native: *mut rd::rd_kafka_t) -> Self {
        Self(native)
    }

    /// Topic ids, partitions and replicas; an error per topic (`UnknownTopicOrPartition`,
    /// `TopicAuthorizationFailed`).
    ///
    /// # Errors
    /// The call itself failed or timed out.
    pub(super) fn describe_topics(
        &self,
        topics: &[String],
        timeout: Duration,
    ) -> Result<Vec<Outcome>, RawError> {
        let names: Vec<CString> = topics.iter().map(|topic| c_text(topic)).collect();
        let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let op = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        self.call(op, timeout, |rk, options, queue| {
            // SAFETY: `pointers` and `names` live until the call returns; librdkafka copies them.
            unsafe {
                let collection =
                    rd::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
                rd::rd_kafka_DescribeTopics(rk, collection, options, queue);
                rd::rd_kafka_TopicCollection_destroy(collection);
            }
        })?
        .read(|event| {
            // SAFETY: the event is a DescribeTopics result; everything is copied before it is destroyed.
            unsafe {
                let result = rd::rd_kafka_event_DescribeTopics_result(event);
                let mut count = 0;
                let list = rd::rd_kafka_DescribeTopics_result_topics(result, &mut count);
                (0..count).map(|index| described(*list.add(index))).collect()
            }
        })
    }

    /// The settings of one topic.
    ///
    /// # Errors
    /// Also what the broker said of this topic alone; the client crate drops that and answers with no entries.
    pub(super) fn describe_configs(&self, topic: &str, timeout: Duration) -> Result<Vec<Entry>, RawError> {
        let name = c_text(topic);
        let op = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS;
        self.call(op, timeout, |rk, options, queue| {
            // SAFETY: one resource, made and destroyed here.
            unsafe {
                let topic_kind = rd::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC;
                let resource = rd::rd_kafka_ConfigResource_new(topic_kind, name.as_ptr());
                let mut list = [resource];
                rd::rd_kafka_DescribeConfigs(rk, list.as_mut_ptr(), 1, options, queue);
                rd::rd_kafka_ConfigResource_destroy(resource);
            }
        })?
        .read(|event| {
            // SAFETY: the event is a DescribeConfigs result; everything is copied before it is destroyed.
            unsafe {
                let result = rd::rd_kafka_event_DescribeConfigs_result(event);
                let mut count = 0;
                let list = rd::rd_kafka_DescribeConfigs_result_resources(result, &mut count);
                let mut entries = Vec::new();
                for index in 0..count {
                    let resource = *list.add(index);
                    resource_error(resource)?;
                    let mut length = 0;
                    let configs = rd::rd_kafka_ConfigResource_configs(resource, &mut length);
                    for at in 0..length {
                        let entry = *configs.add(at);
                        let value = rd::rd_kafka_ConfigEntry_value(entry);
                        let own = rd::rd_kafka_ConfigSource_t::RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG;
                        entries.push(Entry {
                            name: text(rd::rd_kafka_ConfigEntry_name(entry)),
                            value: (!value.is_null()).then(|| text(value)),
                            own: rd::rd_kafka_ConfigEntry_source(entry) as u32 == own as u32,
                        });
                    }
                }
                Ok(entries)
            }
        })?
    }

    /// Sets single settings of one topic and leaves all others as they are (AlterConfigs resets them).
    ///
    /// # Errors
    /// The call's, or the broker's for this topic.
    pub(super) fn set_configs(
        &self,
        topic: &str,
        settings: &[(String, String)],
        timeout: Duration,
    ) -> Result<(), RawError> {
        let name = c_text(topic);
        let pairs: Vec<(CString, CString)> =
            settings.iter().map(|(key, value)| (c_text(key), c_text(value))).collect();
        let op = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_INCREMENTALALTERCONFIGS;
        self.call(op, timeout, |rk, options, queue| {
            // SAFETY: one resource, made and destroyed here; librdkafka copies names and values.
            unsafe {
                let topic_kind = rd::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC;
                let resource = rd::rd_kafka_ConfigResource_new(topic_kind, name.as_ptr());
                for (key, value) in &pairs {
                    let set = rd::rd_kafka_AlterConfigOpType_t::RD_KAFKA_ALTER_CONFIG_OP_TYPE_SET;
                    let error = rd::rd_kafka_ConfigResource_add_incremental_config(
                        resource,
                        key.as_ptr(),
                        set,
                        value.as_ptr(),
                    );
                    if !error.is_null() {
                        rd::rd_kafka_error_destroy(error);
                    }
                }
                let mut list = [resource];
                rd::rd_kafka_IncrementalAlterConfigs(rk, list.as_mut_ptr(), 1, options, queue);
                rd::rd_kafka_ConfigResource_destroy(resource);
            }
        })?
        .read(|event| {
            // SAFETY: the event is an IncrementalAlterConfigs result.
            unsafe {
                let result = rd::rd_kafka_event_IncrementalAlterConfigs_result(event);
                let mut count = 0;
                let list = rd::rd_kafka_IncrementalAlterConfigs_result_resources(result, &mut count);
                (0..count).try_for_each(|index| resource_error(*list.add(index)))
            }
        })?
    }

    /// Classic and new-protocol consumer groups. Share groups are not listed: a group that
    /// `fetch_group_list` calls dead and that is missing here is one.
    ///
    /// # Errors
    /// The call's.
    pub(super) fn list_groups(&self, timeout: Duration) -> Result<Vec<Listed>, RawError> {
        let op = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPS;
        self.call(op, timeout, |rk, options, queue| {
            // SAFETY: nothing but the handle, the options and the queue.
            unsafe { rd::rd_kafka_ListConsumerGroups(rk, options, queue) }
        })?
        .read(|event| {
            // SAFETY: the event is a ListConsumerGroups result; everything is copied before it is destroyed.
            unsafe {
                let result = rd::rd_kafka_event_ListConsumerGroups_result(event);
                let mut count = 0;
                let list = rd::rd_kafka_ListConsumerGroups_result_valid(result, &mut count);
                (0..count)
                    .map(|index| {
                        let one = *list.add(index);
                        let state = rd::rd_kafka_ConsumerGroupListing_state(one);
                        let kind = rd::rd_kafka_ConsumerGroupListing_type(one);
                        Listed {
                            group: text(rd::rd_kafka_ConsumerGroupListing_group_id(one)),
                            state: text(rd::rd_kafka_consumer_group_state_name(state)),
                            kind: text(rd::rd_kafka_consumer_group_type_name(kind)),
                        }
                    })
                    .collect()
            }
        })
    }

    /// Makes a call with a queue and options of its own, and waits for its event.
    fn call(
        &self,
        op: rd::rd_kafka_admin_op_t,
        timeout: Duration,
        make: impl FnOnce(*mut rd::rd_kafka_t, *mut rd::rd_kafka_AdminOptions_t, *mut rd::rd_kafka_queue_t),
    ) -> Result<Event, RawError> {
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: queue and options are made, used and destroyed here; the event goes to its own guard.
        unsafe {
            let queue = rd::rd_kafka_queue_new(self.0);
            let options = rd::rd_kafka_AdminOptions_new(self.0, op);
            rd::rd_kafka_AdminOptions_set_request_timeout(options, millis, ptr::null_mut(), 0);
            make(self.0, options, queue);
            // The request's own timeout ends it; the poll only must not end first.
            let event = rd::rd_kafka_queue_poll(queue, millis.saturating_add(2_000));
            rd::rd_kafka_AdminOptions_destroy(options);
            rd::rd_kafka_queue_destroy(queue);
            if event.is_null() {
                let code = RDKafkaErrorCode::OperationTimedOut;
                return Err(RawError { code, text: "no answer in time".to_owned() });
            }
            Ok(Event(event))
        }
    }
}

/// An event, destroyed at its end.
struct Event(*mut rd::rd_kafka_event_t);

impl Event {
    fn read<T>(self, read: impl FnOnce(*mut rd::rd_kafka_event_t) -> T) -> Result<T, RawError> {
        // SAFETY: the event lives as long as `self`.
        unsafe {
            let code = rd::rd_kafka_event_error(self.0);
            if code as i32 != 0 {
                return Err(RawError {
                    code: code.into(),
                    text: text(rd::rd_kafka_event_error_string(self.0)),
                });
            }
        }
        Ok(read(self.0))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made by librdkafka, destroyed once.
        unsafe { rd::rd_kafka_event_destroy(self.0) }
    }
}

/// One topic of a DescribeTopics result.
///
/// # Safety
/// `one` belongs to a living event.
unsafe fn described(one: *const rd::rd_kafka_TopicDescription_t) -> Outcome {
    // SAFETY: by the caller's promise.
    unsafe {
        let topic = text(rd::rd_kafka_TopicDescription_name(one));
        let error = rd::rd_kafka_TopicDescription_error(one);
        if !error.is_null() {
            let code = rd::rd_kafka_error_code(error);
            if code as i32 != 0 {
                let text = text(rd::rd_kafka_error_string(error));
                return (topic, Err(RawError { code: code.into(), text }));
            }
        }
        let mut partitions = 0;
        let list = rd::rd_kafka_TopicDescription_partitions(one, &mut partitions);
        let mut replication = 0;
        if partitions > 0 {
            rd::rd_kafka_TopicPartitionInfo_replicas(*list, &mut replication);
        }
        let id = text(rd::rd_kafka_Uuid_base64str(rd::rd_kafka_TopicDescription_topic_id(one)));
        // As Kafka's own tools write it; a slash would also break keys and positions apart.
        let id = id.replace('/', "_").replace('+', "-");
        let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
        let replication = i32::try_from(replication).unwrap_or(i32::MAX);
        (topic.clone(), Ok(Described { topic, id, partitions, replication }))
    }
}

/// What the broker said of one resource.
///
/// # Safety
/// `resource` belongs to a living event.
unsafe fn resource_error(resource: *const rd::rd_kafka_ConfigResource_t) -> Result<(), RawError> {
    // SAFETY: by the caller's promise.
    unsafe {
        let code = rd::rd_kafka_ConfigResource_error(resource);
        if code as i32 == 0 {
            return Ok(());
        }
        Err(RawError { code: code.into(), text: text(rd::rd_kafka_ConfigResource_error_string(resource)) })
    }
}

/// A C string copied; null is empty.
///
/// # Safety
/// `pointer` is null or a C string that lives during the call.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Text for C; a NUL inside ends it, which no topic name or setting survives anyway.
fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// The headers of a record in order. The client crate panics on a name that is no UTF-8, which anybody can write;
/// here such a name is read with replacement characters. All values of a record share one buffer: a look makes
/// these for each of a million letters.
pub(super) fn headers(record: &rdkafka::message::BorrowedMessage<'_>) -> Headers {
    let mut list = ptr::null_mut();
    let mut parts: Vec<(Short, Option<std::ops::Range<usize>>)> = Vec::new();
    let mut all: Vec<u8> = Vec::new();
    // SAFETY: the record lives during the call; names and values are copied.
    unsafe {
        if rd::rd_kafka_message_headers(record.ptr(), &mut list) as i32 != 0 || list.is_null() {
            return Headers::new();
        }
        let count = rd::rd_kafka_header_cnt(list);
        parts.reserve_exact(count);
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        let mut sum = 0;
        for index in 0..count {
            rd::rd_kafka_header_get_all(list, index, &mut name, &mut value, &mut size);
            sum += size;
        }
        all.reserve_exact(sum);
        for index in 0..count {
            if rd::rd_kafka_header_get_all(list, index, &mut name, &mut value, &mut size) as i32 != 0 {
                break;
            }
            let from = all.len();
            if !value.is_null() {
                all.extend_from_slice(std::slice::from_raw_parts(value.cast::<u8>(), size));
            }
            let name = match name.is_null() {
                true => Short::from(""),
                false => match CStr::from_ptr(name).to_str() {
                    Ok(name) => Short::from(name),
                    Err(_) => Short::from(text(name)),
                },
            };
            parts.push((name, (!value.is_null()).then_some(from..all.len())));
        }
    }
    let all = Bytes::from(all);
    let value = |range: Option<std::ops::Range<usize>>| match range {
        Some(range) => Value::Bytes(all.slice(range)),
        None => Value::Null,
    };
    parts.into_iter().map(|(name, range)| (name, value(range))).collect()
}

/// Lets all records of a producer go at once and waits until none is left, or the time is up. The client crate's own
/// call asks for that only for an instant, which a busy thread of the library does not notice.
pub(super) fn flush(native: *mut rd::rd_kafka_t, longest: Duration) {
    let millis = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the producer that owns the handle lives during the call. What is left is told by its reports.
    let _ = unsafe { rd::rd_kafka_flush(native, millis) };
}

/// May a record that was not delivered be there all the same: handed over, without an answer?
pub(super) fn perhaps_there(record: &rdkafka::message::BorrowedMessage<'_>) -> bool {
    // SAFETY: the record lives during the call.
    let status = unsafe { rd::rd_kafka_message_status(record.ptr()) };
    status as u32 != rd::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED as u32
}

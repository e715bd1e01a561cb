//! The admin calls that the client crate does not wrap, straight from librdkafka: topic ids, topic settings
//! told apart from missing topics, changing single settings, and consumer groups with state and type.
//!
//! The one module of this program with `unsafe`. Every pointer that librdkafka hands out is copied from
//! before the event that owns it is destroyed; every object made here is freed here.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::bindings as rd;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Timestamp};

use crate::letter::{Headers, Message, Short, Value};

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

/// A record that was read: as the client crate hands it out, or one of many that were taken at once.
pub(super) enum Record<'a> {
    Polled(BorrowedMessage<'a>),
    Taken(Own<'a>),
}

/// A record of our own, freed at its end and before the consumer that it came from.
pub(super) struct Own<'a>(*mut rd::rd_kafka_message_t, PhantomData<&'a ()>);

impl Drop for Own<'_> {
    fn drop(&mut self) {
        // SAFETY: handed to us by librdkafka, destroyed once.
        unsafe { rd::rd_kafka_message_destroy(self.0) }
    }
}

impl Record<'_> {
    fn native(&self) -> &rd::rd_kafka_message_t {
        let native = match self {
            Self::Polled(record) => record.ptr(),
            Self::Taken(own) => own.0,
        };
        // SAFETY: never null, and it lives as long as `self`.
        unsafe { &*native }
    }

    pub(super) fn partition(&self) -> i32 {
        self.native().partition
    }

    pub(super) fn offset(&self) -> i64 {
        self.native().offset
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        let native = self.native();
        // SAFETY: librdkafka's buffer lives as long as the record.
        unsafe { bytes_at(native.key, native.key_len) }
    }

    pub(super) fn payload(&self) -> Option<&[u8]> {
        let native = self.native();
        // SAFETY: librdkafka's buffer lives as long as the record.
        unsafe { bytes_at(native.payload, native.len) }
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        use rd::rd_kafka_timestamp_type_t as T;
        let mut kind = T::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the record lives during the call.
        let at = unsafe { rd::rd_kafka_message_timestamp(self.native(), &mut kind) };
        match kind {
            _ if at == -1 => Timestamp::NotAvailable,
            T::RD_KAFKA_TIMESTAMP_CREATE_TIME => Timestamp::CreateTime(at),
            T::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Timestamp::LogAppendTime(at),
            T::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => Timestamp::NotAvailable,
        }
    }

    /// What it says, with or without its body.
    pub(super) fn message(&self, bodies: bool) -> Message {
        // SAFETY: the record lives during the call.
        unsafe { message_of(self.native(), bodies) }
    }
}

/// # Safety
/// `pointer` is null or begins `length` bytes that live as long as `'a`.
unsafe fn bytes_at<'a>(pointer: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: by the caller's promise.
    (!pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) })
}

/// Most records that are taken at once: what they hold of fetched answers is beside the client's own bound.
const AT_ONCE: usize = 64;

/// Takes records that a consumer has fetched, many at once: to ask for each of a million by itself costs more than to
/// read it. What else the consumer has to tell comes through its own poll, which has to be called when nothing is here.
pub(super) struct Fetched {
    queue: *mut rd::rd_kafka_queue_t,
    records: Vec<*mut rd::rd_kafka_message_t>,
    next: usize,
}

// SAFETY: librdkafka's queues and messages may be used from any thread, one at a time.
unsafe impl Send for Fetched {}
// SAFETY: nothing can be done with a shared one.
unsafe impl Sync for Fetched {}

impl Fetched {
    /// Of a consumer, which lives longer than this.
    pub(super) fn of(native: *mut rd::rd_kafka_t) -> Self {
        // SAFETY: a consumer with a group id has such a queue; it is destroyed with this.
        let queue = unsafe { rd::rd_kafka_queue_get_consumer(native) };
        Self { queue, records: Vec::with_capacity(AT_ONCE), next: 0 }
    }

    /// The next record that is here, or what the client says of a partition.
    pub(super) fn take(&mut self) -> Option<KafkaResult<Record<'_>>> {
        if self.next == self.records.len() {
            self.next = 0;
            self.records.clear();
            if !self.queue.is_null() {
                // SAFETY: there is room for as many as are asked for, and so many as it says are there.
                unsafe {
                    let room = self.records.as_mut_ptr();
                    let got = rd::rd_kafka_consume_batch_queue(self.queue, 0, room, AT_ONCE);
                    self.records.set_len(usize::try_from(got).unwrap_or(0));
                }
            }
        }
        let native = *self.records.get(self.next)?;
        self.next += 1;
        let record = Record::Taken(Own(native, PhantomData));
        let error = record.native().err;
        Some(match error {
            rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(record),
            rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF => {
                Err(KafkaError::PartitionEOF(record.partition()))
            }
            error => Err(KafkaError::MessageConsumption(error.into())),
        })
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        for record in &self.records[self.next..] {
            drop(Own(*record, PhantomData));
        }
        if !self.queue.is_null() {
            // SAFETY: got in `of`, destroyed once.
            unsafe { rd::rd_kafka_queue_destroy(self.queue) }
        }
    }
}

/// What a record says.
pub(super) fn message(record: &BorrowedMessage<'_>) -> Message {
    // SAFETY: the record lives during the call.
    unsafe { message_of(record.ptr(), true) }
}

/// Key, body and headers in order, in one buffer: a look makes these for each of a million letters. The client crate
/// panics on a header's name that is no UTF-8, which anybody can write; here such a name is read with replacement
/// characters.
///
/// # Safety
/// `record` lives during the call.
unsafe fn message_of(record: *const rd::rd_kafka_message_t, bodies: bool) -> Message {
    // SAFETY: by the caller's promise; everything is copied.
    unsafe {
        let key = bytes_at((*record).key, (*record).key_len);
        let body = bytes_at((*record).payload, (*record).len).filter(|_| bodies);
        let mut list = ptr::null_mut();
        let none = rd::rd_kafka_message_headers(record, &mut list) as i32 != 0 || list.is_null();
        let count = if none { 0 } else { rd::rd_kafka_header_cnt(list) };
        let header = |index| {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            rd::rd_kafka_header_get_all(list, index, &mut name, &mut value, &mut size);
            (name, bytes_at(value, size))
        };
        let values = || (0..count).filter_map(|index| header(index).1);
        let parts = || key.into_iter().chain(body).chain(values());
        let mut all = Vec::with_capacity(parts().map(<[u8]>::len).sum());
        parts().for_each(|part| all.extend_from_slice(part));
        let all = Bytes::from(all);
        let mut at = 0;
        let mut cut = |part: &[u8]| {
            at += part.len();
            all.slice(at - part.len()..at)
        };
        Message {
            key: key.map(&mut cut),
            body: body.map(&mut cut),
            headers: (0..count)
                .map(|index| {
                    let (name, value) = header(index);
                    (name_at(name), value.map_or(Value::Null, |value| Value::Bytes(cut(value))))
                })
                .collect(),
            properties: Headers::new(),
        }
    }
}

/// The name of a header.
///
/// # Safety
/// `name` is null or a C string that lives during the call.
unsafe fn name_at(name: *const c_char) -> Short {
    if name.is_null() {
        return Short::from("");
    }
    // SAFETY: by the caller's promise.
    match unsafe { CStr::from_ptr(name) }.to_str() {
        Ok(name) => Short::from(name),
        // SAFETY: the same.
        Err(_) => Short::from(unsafe { text(name) }),
    }
}

/// Lets all records of a producer go at once and waits until none is left, or the time is up. The client crate's own
/// call asks for that only for an instant, which a busy thread of the library does not notice.
pub(super) fn flush(native: *mut rd::rd_kafka_t, longest: Duration) {
    let millis = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the producer that owns the handle lives during the call. What is left is told by its reports.
    let _ = unsafe { rd::rd_kafka_flush(native, millis) };
}

/// May a record that was not delivered be there all the same: handed over, without an answer?
pub(super) fn perhaps_there(record: &BorrowedMessage<'_>) -> bool {
    // SAFETY: the record lives during the call.
    let status = unsafe { rd::rd_kafka_message_status(record.ptr()) };
    status as u32 != rd::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED as u32
}

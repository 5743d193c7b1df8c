//! The messages of the data path that are used here: protocol buffers of the package
//! `com.deno.kv.datapath`, version 3 of KV Connect. Other fields are skipped.

use prost::Message;

/// Reads the values in ranges of keys.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotRead {
    #[prost(message, repeated, tag = "1")]
    pub(crate) ranges: Vec<ReadRange>,
}

/// A range of keys, without its end.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReadRange {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) start: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) end: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(crate) limit: i32,
}

/// The response to a read.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotReadOutput {
    #[prost(message, repeated, tag = "1")]
    pub(crate) ranges: Vec<ReadRangeOutput>,
    #[prost(bool, tag = "2")]
    pub(crate) read_disabled: bool,
    #[prost(bool, tag = "4")]
    pub(crate) read_is_strongly_consistent: bool,
    /// Set in version 3 only.
    #[prost(int32, tag = "8")]
    pub(crate) status: i32,
}

/// The read succeeded.
pub(crate) const READ_SUCCESS: i32 = 1;

/// The values of one range.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReadRangeOutput {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<KvEntry>,
}

/// A stored value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct KvEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(crate) encoding: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) versionstamp: Vec<u8>,
}

/// Writes all or nothing.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AtomicWrite {
    #[prost(message, repeated, tag = "1")]
    pub(crate) checks: Vec<Check>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) mutations: Vec<Mutation>,
}

/// A key must still have this versionstamp; an empty one means that it must not exist.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Check {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) versionstamp: Vec<u8>,
}

/// A value to write.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mutation {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<KvValue>,
    #[prost(int32, tag = "3")]
    pub(crate) mutation_type: i32,
    /// 0 for no expiry.
    #[prost(int64, tag = "4")]
    pub(crate) expire_at_ms: i64,
}

/// The mutation sets a value.
pub(crate) const MUTATION_SET: i32 = 1;

/// A value in a request.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct KvValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) data: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub(crate) encoding: i32,
}

/// The value is plain bytes.
pub(crate) const ENCODING_BYTES: i32 = 3;

/// The response to a write.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AtomicWriteOutput {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

/// It was written.
pub(crate) const WRITE_SUCCESS: i32 = 1;
/// A versionstamp differed, and nothing was written.
pub(crate) const WRITE_CHECK_FAILURE: i32 = 2;
/// The server accepts no writes, and nothing was written.
pub(crate) const WRITE_DISABLED: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the schema: tag and type, length, content.
    #[test]
    fn messages_match_the_schema() {
        let range = ReadRange { start: vec![1], end: vec![1, 0], limit: 1 };
        let read = SnapshotRead { ranges: vec![range] };
        assert_eq!(read.encode_to_vec(), [0x0a, 9, 0x0a, 1, 1, 0x12, 2, 1, 0, 0x18, 1]);
        let write = AtomicWrite {
            checks: vec![Check { key: vec![7], versionstamp: vec![] }],
            mutations: vec![Mutation {
                key: vec![7],
                value: Some(KvValue { data: vec![9], encoding: ENCODING_BYTES }),
                mutation_type: MUTATION_SET,
                expire_at_ms: 5,
            }],
        };
        let check = [0x0a, 3, 0x0a, 1, 7];
        let mutation = [0x12, 14, 0x0a, 1, 7, 0x12, 5, 0x0a, 1, 9, 0x10, 3, 0x18, 1, 0x20, 5];
        assert_eq!(write.encode_to_vec(), [&check[..], &mutation[..]].concat());
        // Fields 2 and 4, which other servers send, are skipped.
        let output = [0x08, 2, 0x12, 1, 0, 0x22, 1, 0];
        assert_eq!(AtomicWriteOutput::decode(&output[..]).unwrap().status, WRITE_CHECK_FAILURE);
    }
}

//! Which object a key lives in.
//!
//! The object is chosen by the subject alone (the text between the braces of a name), so all limits
//! of one subject are in one object and are charged at once. The hash is FNV-1a of 64 bits; neither
//! it nor the names of the objects ever change, because a key that moves starts afresh.

/// The shard of a name, below `shards`.
pub(super) fn shard_of(name: &str, shards: u32) -> u32 {
    let hash = subject_of(name).bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    // Below 2^32.
    u32::try_from(hash % u64::from(shards.max(1))).unwrap_or_default()
}

/// The name of the object of a shard.
pub(super) fn object_name(shard: u32) -> String {
    format!("tollgate-{shard}")
}

fn subject_of(name: &str) -> &str {
    let inner = name.split_once('{').map(|(_, rest)| rest);
    inner.and_then(|rest| rest.split_once('}')).map_or(name, |(subject, _)| subject)
}

#[cfg(test)]
mod tests {
    use super::shard_of;

    #[test]
    fn limits_and_request_ids_of_a_subject_share_an_object() {
        let names = ["tollgate:api:{ada}", "t:api.minute:{ada}", "tollgate:api:{ada}:once:7"];
        let shards = names.map(|name| shard_of(name, 1_000));
        assert_eq!(shards, [shards[0]; 3]);
        assert_eq!(shard_of("tollgate:api:{ada}", 1), 0);
    }

    #[test]
    fn the_shards_of_a_release_stay_as_they_are() {
        let shards = ["a", "b", "192.0.2.7", "%"]
            .map(|subject| shard_of(&format!("tollgate:api:{{{subject}}}"), 64));
        assert_eq!(shards, [12, 37, 10, 0]);
    }

    #[test]
    fn subjects_spread_evenly() {
        let mut counts = [0_u32; 16];
        for subject in 0..16_000 {
            let shard = shard_of(&format!("tollgate:api:{{{subject}}}"), 16);
            counts[usize::try_from(shard).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }
}

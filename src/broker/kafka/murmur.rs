//! The partition of a key, as the Java client's default partitioner has it: murmur2, made positive, by the number of
//! partitions. librdkafka's `murmur2_random` places copies the same way; this tells it before anything is sent (K21).

const M: u32 = 0x5bd1_e995;
const SEED: u32 = 0x9747_b28c;

fn murmur2(key: &[u8]) -> u32 {
    let mut hash = SEED ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let word = word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (word ^ word >> 24).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// Of so many partitions.
pub(super) fn partition(key: &[u8], partitions: i32) -> i32 {
    let positive = (murmur2(key) & 0x7fff_ffff).cast_signed();
    positive % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k21_keys_lie_where_java_puts_them() {
        for (key, partitions, at) in [
            ("354afe16-939a-4ea8-8e17-8bb0840b6886", 10, 4),
            ("f562ac3b-2224-4e25-a0ab-56094e10c239", 10, 5),
            ("fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26),
            ("TT0124", 15, 10),
        ] {
            assert_eq!(partition(key.as_bytes(), partitions), at, "{key}");
        }
    }
}

//! Dead-letter routes that lead back to where they began without a rejection: the broker drops a message on
//! such a way in silence (R11).

/// Why a queue passes a message on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its time to live ran out, or the queue is full.
    ByItself,
    /// A consumer rejected it, or published it: breaks a cycle.
    ByConsumer,
}

/// One way from queue to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop<'a> {
    /// Queue that it leaves.
    pub from: &'a str,
    /// Queue that it comes to.
    pub to: &'a str,
    /// Why.
    pub why: Why,
}

/// The path of a cycle that no consumer takes part in, its first queue again at its end.
pub fn without_rejection<'a>(hops: &[Hop<'a>]) -> Option<Vec<&'a str>> {
    let next =
        |queue: &str| hops.iter().find(|hop| hop.from == queue && hop.why == Why::ByItself).map(|hop| hop.to);
    for start in hops.iter().filter(|hop| hop.why == Why::ByItself) {
        let mut path = vec![start.from];
        let mut at = start.from;
        while let Some(to) = next(at) {
            path.push(to);
            if to == start.from {
                return Some(path);
            }
            if path.len() > hops.len() + 1 {
                break;
            }
            at = to;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop<'a>(from: &'a str, to: &'a str, why: Why) -> Hop<'a> {
        Hop { from, to, why }
    }

    #[test]
    fn r11_a_retry_loop_without_any_rejection_is_named_with_its_path() {
        let work = [hop("work", "retry-5s", Why::ByItself), hop("retry-5s", "work", Why::ByItself)];
        assert_eq!(without_rejection(&work), Some(vec!["work", "retry-5s", "work"]));
        let rejected = [hop("work", "retry-5s", Why::ByConsumer), hop("retry-5s", "work", Why::ByItself)];
        assert_eq!(without_rejection(&rejected), None);
        let into = [hop("a", "b", Why::ByItself), hop("b", "c", Why::ByItself), hop("c", "b", Why::ByItself)];
        assert_eq!(without_rejection(&into), Some(vec!["b", "c", "b"]));
    }
}

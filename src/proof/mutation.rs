//! Planted faults: the mutations of `protocol.md` §12, each a wrong turn that a test must catch.
//!
//! A test switches one on for its own thread; every other build has none of them.

/// Is this mutation switched on? Always false outside this crate's own tests.
#[inline]
pub(crate) fn mutated(name: &str) -> bool {
    #[cfg(test)]
    return planted::is(name);
    #[cfg(not(test))]
    {
        let _ = name;
        false
    }
}

/// Work for another thread, under the mutation of this one.
#[inline]
pub(crate) fn carried<T>(work: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    #[cfg(test)]
    let on = planted::now();
    move || {
        #[cfg(test)]
        return planted::with(on, work);
        #[cfg(not(test))]
        work()
    }
}

#[cfg(test)]
pub(crate) mod planted {
    //! The switch.

    use std::cell::Cell;

    thread_local! {
        static ON: Cell<&'static str> = const { Cell::new("") };
    }

    pub(super) fn is(name: &str) -> bool {
        ON.with(|on| on.get() == name)
    }

    /// The one that is on.
    pub(super) fn now() -> &'static str {
        ON.with(Cell::get)
    }

    /// Runs `f` with one mutation on.
    pub(crate) fn with<T>(name: &'static str, f: impl FnOnce() -> T) -> T {
        struct Reset(&'static str);
        impl Drop for Reset {
            fn drop(&mut self) {
                ON.with(|on| on.set(self.0));
            }
        }
        let _reset = Reset(ON.with(|on| on.replace(name)));
        f()
    }
}

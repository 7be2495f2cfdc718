//! Where a reflector is between two requests.

/// What a reflector does next.
///
/// Before a step takes in anything of a list, it sets the state that follows if it breaks off, because a step may be dropped half-way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchState {
    /// Nothing was listed yet: list everything in one answer, which the server takes from its cache. That may be slightly stale,
    /// and is the quickest way. `Watch` follows; if it breaks off, `Stream`.
    ListAtHand,
    /// List as the start of a watch, which takes little memory on both sides. The same watch goes on, and `Watch` follows
    /// when that ends; if it breaks off before the list is complete, `ListInPages`. A server that is not there or wants to be
    /// asked later is asked for the same again: pages come from its store, and would cost it more.
    Stream,
    /// List in pages, because a stream broke off or the server knows none. `Watch` follows; if it breaks off,
    /// `ListInPages` again.
    ListInPages,
    /// Watch from this version on. `Watch` follows, from the last version that arrived; if the server has forgotten that
    /// version, or a fresh list is wanted, `Stream` or `ListInPages`, whichever the server can do.
    Watch { from: String },
}

/// How a step ended, when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepEnd {
    /// A list is complete.
    Listed,
    /// A watch ended, or its connection, that brought something, if only a bookmark.
    Watched,
    /// A watch ended, or its connection, that brought nothing.
    WatchedNothing,
}

//! The first inputs of `cargo xtask fuzz --cost`, which are always the same. One test in a program of its own, because all that
//! the process allocates is counted.

use kube_scheduler_tests::cost::{Options, Search};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

#[test]
fn no_small_input_costs_too_much_or_leaves_anything_behind() {
    let options = Options { seed: 1, max_size: 30_000, max_millis: None };
    let mut search = Search::new(options, &ALLOCATOR).unwrap();
    for _ in 0..Search::N_FIRST {
        search.step().unwrap();
    }
    assert_eq!(search.findings(), Vec::<String>::new(), "{:#?}", search.report());
}

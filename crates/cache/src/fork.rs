//! Storage that is cheap to copy: what makes a fork of the whole cluster affordable.
//!
//! Both containers split their content into pieces behind an `Arc`. Cloning copies one pointer per piece; the first
//! write to a shared piece copies that piece alone; later writes to it copy nothing.
//!
//! Invariant: a clone never sees a write that was made after it, in either direction.

mod column;
mod cow_map;

pub use column::{COLUMN_CHUNK, Column};
pub(crate) use column::{SPARSE_CHUNK, WIDE_CHUNK};
pub use cow_map::CowMap;

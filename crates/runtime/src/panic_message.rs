//! What a panic says.

use std::any::Any;

/// The message of a panic that was caught, if it has one.
pub fn panic_message(panic: &(dyn Any + Send)) -> Option<&str> {
    let fixed = panic.downcast_ref::<&str>().copied();
    fixed.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

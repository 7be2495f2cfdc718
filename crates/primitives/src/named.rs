//! Enums whose values have names in texts that others read: metrics, API objects, messages.

/// Defines an enum whose values have names, so that each value is written once. `as_str` gives the name of a value; with `all` in front
/// there is also `ALL`, with all values in the order in which they are written.
///
/// ```
/// kube_scheduler_primitives::named_enum! {
///     /// What may be done with objects.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     all pub enum Verb {
///         /// One object is read.
///         Get = "get",
///         /// All objects are read.
///         List = "list",
///     }
/// }
///
/// assert_eq!(Verb::ALL.map(Verb::as_str), ["get", "list"]);
/// ```
#[macro_export]
macro_rules! named_enum {
    ($(#[$about:meta])* all $vis:vis enum $name:ident {
        $($(#[$about_value:meta])* $value:ident = $text:literal,)+
    }) => {
        $crate::named_enum! {
            $(#[$about])* $vis enum $name { $($(#[$about_value])* $value = $text,)+ }
        }

        impl $name {
            /// All values, in order.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];
        }
    };
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$about_value:meta])* $value:ident = $text:literal,)+
    }) => {
        $(#[$about])*
        $vis enum $name {
            $($(#[$about_value])* $value,)+
        }

        impl $name {
            /// The name of the value.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

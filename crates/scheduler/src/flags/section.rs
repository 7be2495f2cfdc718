//! Sections of flags. A section is declared once, and reading, help, `/flagz`, completions and the manual page follow.

use super::value::FlagValue;

/// A view of one flag.
pub(crate) struct Flag<'a> {
    /// Its name, with hyphens and without the leading ones.
    pub(crate) name: &'static str,
    /// Its one-letter name, if it has one.
    pub(crate) short: Option<char>,
    /// Its help text.
    pub(crate) usage: String,
    /// Its value.
    pub(crate) value: &'a mut dyn FlagValue,
}

/// Flags that belong together.
pub(crate) trait Section {
    /// Calls `look` with each flag.
    fn visit(&mut self, look: &mut dyn FnMut(Flag<'_>));
}

/// Declares the struct of a section: per flag a field, its type, its default, its name and its help.
macro_rules! section {
    (
        $(#[$doc:meta])*
        $section:ident {
            $(
                $(#[$field_doc:meta])*
                $field:ident: $type:ty = $default:expr, $name:literal $(or $short:literal)?, $usage:expr;
            )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(crate) struct $section {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::flags::section::Section for $section {
            fn visit(&mut self, look: &mut dyn FnMut($crate::flags::section::Flag<'_>)) {
                $(
                    #[allow(unused_mut, unused_assignments, reason = "most flags have no letter")]
                    let mut short = None;
                    $(short = Some($short);)?
                    look($crate::flags::section::Flag {
                        name: $name,
                        short,
                        usage: $usage.into(),
                        value: &mut self.$field,
                    });
                )*
            }
        }
    };
}
pub(super) use section;

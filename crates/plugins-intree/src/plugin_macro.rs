//! How the plugins of this crate say what they are.

/// Implements [`Plugin`](kube_scheduler_framework::Plugin) for a type: it has the `NAME` of its module, and is called at these
/// extension points. For plugins that say nothing else of themselves.
macro_rules! plugin {
    ($plugin:ident, $($point:ident),+) => {
        impl kube_scheduler_framework::Plugin for $plugin {
            fn name(&self) -> &str {
                NAME
            }

            kube_scheduler_framework::extension_points!($($point),+);
        }
    };
}

//! Names to plugin factories.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube_scheduler_framework::{Handle, Plugin, PluginArgs, PluginError};

/// Makes a plugin for one profile.
pub type PluginFactory =
    Arc<dyn Fn(&PluginArgs, &Handle) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync>;

/// A registry entry that cannot be added or removed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegistryError {
    /// The name is taken.
    #[error("a plugin named {0} already exists")]
    Duplicate(String),
    /// There is no such plugin.
    #[error("no plugin named {0} exists")]
    Unknown(String),
}

/// All plugins that profiles can name. Iterates in name order.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<Arc<str>, PluginFactory>);

impl Registry {
    /// A registry without plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin that profiles can name. Each profile that enables it calls `factory` once.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if the name is taken.
    pub fn register<F>(&mut self, name: &str, factory: F) -> Result<(), RegistryError>
    where
        F: Fn(&PluginArgs, &Handle) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync + 'static,
    {
        self.add(name.into(), Arc::new(factory))
    }

    fn add(&mut self, name: Arc<str>, factory: PluginFactory) -> Result<(), RegistryError> {
        if self.0.contains_key(&name) {
            return Err(RegistryError::Duplicate(name.to_string()));
        }
        self.0.insert(name, factory);
        Ok(())
    }

    /// Replaces the factory of a plugin.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`] if there is none of this name.
    pub fn replace<F>(&mut self, name: &str, factory: F) -> Result<(), RegistryError>
    where
        F: Fn(&PluginArgs, &Handle) -> Result<Arc<dyn Plugin>, PluginError> + Send + Sync + 'static,
    {
        let place = self.0.get_mut(name).ok_or_else(|| RegistryError::Unknown(name.to_owned()))?;
        *place = Arc::new(factory);
        Ok(())
    }

    /// Adds all plugins of `other`.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] at the first name that is taken; plugins before it have been added.
    pub fn merge(&mut self, other: Self) -> Result<(), RegistryError> {
        other.0.into_iter().try_for_each(|(name, factory)| self.add(name, factory))
    }

    /// The factory behind a name.
    pub fn get(&self, name: &str) -> Option<&PluginFactory> {
        self.0.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

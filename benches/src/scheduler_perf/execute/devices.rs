//! Drivers, slices and claims of devices.

use anyhow::{Result, bail};

use super::super::objects::{fits, resource_slice};
use super::super::op::{AllocResourceClaims, CreateResourceClaims, CreateResourceDriver, counted};
use super::Executor;

impl Executor<'_> {
    pub(super) async fn create_resource_driver(&mut self, op: &CreateResourceDriver) -> Result<()> {
        let n_devices = counted(
            "maxClaimsPerNodeParam",
            op.max_claims_per_node,
            &op.max_claims_per_node_param,
            &mut self.params,
        )?;
        let nodes = self.hands.api.send("GET", "/api/v1/nodes", None, "").await?;
        let names: Vec<&str> = nodes["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|node| node["metadata"]["name"].as_str())
            .filter(|name| fits(&op.nodes, name))
            .collect();
        let slice = |index: usize| Ok(resource_slice(&op.driver_name, names[index], n_devices));
        self.hands.create_all(names.len(), "", slice).await
    }

    pub(super) async fn create_resource_claims(&mut self, op: &CreateResourceClaims) -> Result<()> {
        let n = counted("countParam", op.count, &op.count_param, &mut self.params)?;
        let claim = self.template(&op.template_path)?.plain()?;
        self.need_namespace(&op.namespace).await?;
        self.hands.create_all(n, &op.namespace, |_| Ok(claim.clone())).await
    }

    /// Nothing to do where no claim waits. Whatever waits needs the allocator of the plugin DynamicResources, which this
    /// scheduler does not have yet: a workload whose devices are not in use would measure something else.
    pub(super) async fn alloc_resource_claims(&mut self, op: &AllocResourceClaims) -> Result<()> {
        let scope = match op.namespace.as_str() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let path = format!("/apis/resource.k8s.io/v1{scope}/resourceclaims");
        let claims = self.hands.api.send("GET", &path, None, "").await?;
        let claims = claims["items"].as_array().into_iter().flatten();
        let n = claims.filter(|claim| claim["status"]["allocation"].is_null()).count();
        if n > 0 {
            bail!(
                "{n} claims would have to be allocated, and this scheduler has no allocator of devices yet: leave workloads \
                 with allocResourceClaims out"
            );
        }
        Ok(())
    }
}

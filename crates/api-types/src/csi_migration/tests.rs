//! Handles of every in-tree plugin, in volumes and inline, and the errors about those that have none.

use serde_json::{Value, json};

use super::*;
use crate::Pod;

fn volume(labels: &Value, source: &Value) -> Object {
    let mut spec = json!({});
    for (field, value) in source.as_object().unwrap() {
        spec[field] = value.clone();
    }
    Object::from_value(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "pv", "labels": labels}, "spec": spec,
    }))
    .unwrap()
}

fn handle_of(labels: &Value, source: &Value) -> Result<String, String> {
    let object = volume(labels, source);
    let plugin = InTreePlugin::of_volume(&object).unwrap();
    let volume = plugin.translate_volume(&object).map_err(|error| error.to_string())?;
    assert_eq!(volume.driver, plugin.driver());
    Ok(volume.handle)
}

fn inline_handle_of(source: &Value) -> Result<String, String> {
    let mut volume = source.clone();
    volume["name"] = json!("v");
    let pod = Pod::from_value(&json!({
        "metadata": {"name": "p"}, "spec": {"volumes": [volume]},
    }))
    .unwrap();
    let source = &pod.volumes[0].source;
    let translated = InTreePlugin::of_inline(source).unwrap().translate_inline(source);
    translated.map(|volume| volume.handle).map_err(|error| error.to_string())
}

fn ebs(id: &str) -> Result<String, String> {
    let source = json!({"awsElasticBlockStore": {"volumeID": id}});
    let handle = handle_of(&json!({}), &source);
    assert_eq!(handle, inline_handle_of(&source));
    handle
}

#[test]
fn ebs_ids_may_be_urls() {
    assert_eq!(ebs("vol-1").unwrap(), "vol-1");
    assert_eq!(ebs("anything/else").unwrap(), "anything/else");
    assert_eq!(ebs("aws://us-east-1a/vol-2").unwrap(), "vol-2");
    assert_eq!(ebs("aws:///vol-%33/").unwrap(), "vol-3");
    let prefix = "failed to translate Kubernetes ID to EBS Volume ID ";
    assert_eq!(
        ebs("aws://zone/disk").unwrap_err(),
        format!("{prefix}Invalid format for AWS volume (aws://zone/disk)")
    );
    assert_eq!(
        ebs("aws://zone/vol-1/x").unwrap_err(),
        format!("{prefix}Invalid format for AWS volume (aws://zone/vol-1/x)")
    );
    assert_eq!(
        ebs("aws:///vol-%zz").unwrap_err(),
        format!(
            "{prefix}Invalid disk name (aws:///vol-%zz): parse \"aws:///vol-%zz\": invalid URL escape \"%zz\""
        )
    );
    assert_eq!(
        ebs("aws://a b/vol-1").unwrap_err(),
        format!(
            "{prefix}Invalid disk name (aws://a b/vol-1): parse \"aws://a b/vol-1\": invalid character \" \" in host name"
        )
    );
}

#[test]
fn gce_disks_are_named_after_their_zones() {
    let source = json!({"gcePersistentDisk": {"pdName": "d"}});
    let with = |labels: Value| handle_of(&labels, &source);
    assert_eq!(with(json!({})).unwrap(), "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d");
    assert_eq!(
        with(json!({BETA_ZONE: "a-b-c", ZONE: "x-y-z"})).unwrap(),
        "projects/UNSPECIFIED/zones/a-b-c/disks/d"
    );
    assert_eq!(
        with(json!({BETA_ZONE: "", ZONE: "x"})).unwrap(),
        "projects/UNSPECIFIED/zones/x/disks/d"
    );
    assert_eq!(
        with(json!({ZONE: "a-b-c__a-b-d"})).unwrap(),
        "projects/UNSPECIFIED/regions/a-b/disks/d"
    );
    assert_eq!(
        with(json!({ZONE: "a-b-c__x-y-z"})).unwrap_err(),
        "failed to get region from zones: multiple or no regions gotten from zones, got: map[a-b:{} x-y:{}]"
    );
    assert_eq!(
        with(json!({ZONE: "a-b__x"})).unwrap_err(),
        "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a-b"
    );
    assert_eq!(
        inline_handle_of(&source).unwrap(),
        "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
    );
}

#[test]
fn azure_disks_must_be_managed() {
    let with = |source: Value| {
        let source = json!({"azureDisk": source});
        let handle = handle_of(&json!({}), &source);
        assert_eq!(handle, inline_handle_of(&source));
        handle
    };
    assert_eq!(with(json!({"diskURI": "u"})).unwrap(), "u");
    assert_eq!(with(json!({"diskURI": "u", "kind": "managed"})).unwrap(), "u");
    assert_eq!(
        with(json!({"diskURI": "u", "kind": "Shared"})).unwrap_err(),
        "kind(Shared) is not supported in csi migration"
    );
}

#[test]
fn other_plugins_keep_their_ids_or_have_none() {
    let both = |source: Value| {
        let handle = handle_of(&json!({}), &source);
        assert_eq!(handle, inline_handle_of(&source));
        handle.unwrap()
    };
    assert_eq!(both(json!({"cinder": {"volumeID": "c"}})), "c");
    assert_eq!(both(json!({"portworxVolume": {"volumeID": "p"}})), "p");
    assert_eq!(both(json!({"azureFile": {"shareName": "s"}})), "");
    assert_eq!(both(json!({"vsphereVolume": {"volumePath": "v", "storagePolicyName": "x"}})), "");
}

#[test]
fn plugins_are_found_by_name() {
    for plugin in InTreePlugin::ALL {
        assert_eq!(InTreePlugin::named(plugin.name()), Some(plugin));
    }
    assert_eq!(InTreePlugin::named("ebs.csi.aws.com"), None);
    assert_eq!(InTreePlugin::ALL.iter().filter(|plugin| plugin.is_migration_on()).count(), 5);
}

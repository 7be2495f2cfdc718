//! Handles of GCE persistent disks: `projects/<project>/<zones or regions>/<place>/disks/<name>`.

use std::collections::BTreeSet;

use super::{BETA_ZONE, CsiTranslationError, ZONE, ZONE_DELIMITER};
use crate::Labels;

const UNSPECIFIED: &str = "UNSPECIFIED";

/// The handle of an inline disk, whose zone is not known.
pub(super) fn handle_of_inline(disk: &str) -> String {
    zonal(UNSPECIFIED, disk)
}

/// The handle of a volume, whose labels say in which zones it is.
pub(super) fn handle_of_volume(disk: &str, labels: &Labels) -> Result<String, CsiTranslationError> {
    let zones = labels
        .get(BETA_ZONE)
        .filter(|zones| !zones.is_empty())
        .or_else(|| labels.get(ZONE))
        .unwrap_or_default();
    let zones: Vec<&str> = zones.split(ZONE_DELIMITER).collect();
    match zones[..] {
        [] | [""] => Ok(zonal(UNSPECIFIED, disk)),
        [zone] => Ok(zonal(zone, disk)),
        _ => {
            let region = region_of(&zones).map_err(CsiTranslationError::GceZones)?;
            Ok(format!("projects/{UNSPECIFIED}/regions/{region}/disks/{disk}"))
        }
    }
}

fn zonal(zone: &str, disk: &str) -> String {
    format!("projects/{UNSPECIFIED}/zones/{zone}/disks/{disk}")
}

/// The one region that all zones are in: their names without the last of three parts.
fn region_of(zones: &[&str]) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        match zone.split('-').collect::<Vec<_>>()[..] {
            [continent, region, _] => regions.insert(format!("{continent}-{region}")),
            _ => {
                return Err(format!(
                    "zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
                ));
            }
        };
    }
    let only = (regions.len() == 1).then(|| regions.pop_first()).flatten();
    only.ok_or_else(|| {
        let names: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
        format!("multiple or no regions gotten from zones, got: map[{}]", names.join(" "))
    })
}

//! Traces in CSV: one node or one task per line.
//!
//! Columns are found by the names in the first line; further columns are ignored. The format is that of the public trace
//! `cluster-trace-gpu-v2023`: GPUs are the resource `nvidia.com/gpu`, their model is the node label `gpu-model`; a task
//! that needs a share of a GPU requests a whole one.

use std::collections::BTreeMap;

use csv::{ReaderBuilder, StringRecord};
use kube_scheduler_api_types::Timestamp;
use kube_scheduler_api_types::well_known::HOSTNAME;
use serde_json::{Value, json};

use super::error::{ImportError, SourceLocation};
use super::manifest::Document;

const GPU: &str = "nvidia.com/gpu";
const GPU_MODEL: &str = "gpu-model";
/// The default of kubelets, since traces do not say.
const PODS_PER_NODE: &str = "110";

/// The nodes of a trace.
pub(super) fn nodes(file: &str, text: &str) -> Result<Vec<Document>, ImportError> {
    let table = Table::read(file, text, &["sn", "cpu_milli", "memory_mib", "gpu", "model"])?;
    table.map(|row| {
        let name = row.name("sn")?;
        let mut labels = BTreeMap::from([(HOSTNAME, name)]);
        let model = row.text("model");
        if !model.is_empty() {
            labels.insert(GPU_MODEL, model);
        }
        let mut allocatable = BTreeMap::from([
            ("cpu", format!("{}m", row.number("cpu_milli")?)),
            ("memory", format!("{}Mi", row.number("memory_mib")?)),
            ("pods", PODS_PER_NODE.to_owned()),
        ]);
        let n_gpus = row.number("gpu")?;
        if n_gpus > 0 {
            allocatable.insert(GPU, n_gpus.to_string());
        }
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": allocatable},
        });
        Ok((node, None))
    })
}

/// The tasks of a trace. Where there are no times of creation, each is created a second after the one before it.
pub(super) fn pods(file: &str, text: &str) -> Result<Vec<Document>, ImportError> {
    let table = Table::read(file, text, &["name", "cpu_milli", "memory_mib", "num_gpu"])?;
    table.map(|row| {
        let mut requests = BTreeMap::from([
            ("cpu", format!("{}m", row.number("cpu_milli")?)),
            ("memory", format!("{}Mi", row.number("memory_mib")?)),
        ]);
        let is_share = row.number_or_zero("gpu_milli")? > 0;
        let n_gpus = row.number("num_gpu")?.max(u32::from(is_share));
        if n_gpus > 0 {
            requests.insert(GPU, n_gpus.to_string());
        }
        let (created, ends) = row.lifetime()?;
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": row.name("name")?, "namespace": "default", "creationTimestamp": created.to_string()},
            "spec": {"containers": [{"name": "task", "resources": {"requests": requests}}]},
        });
        let models: Vec<&str> = row.text("gpu_spec").split('|').filter(|model| !model.is_empty()).collect();
        if !models.is_empty() {
            pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": models}]}],
            }}});
        }
        Ok((pod, ends))
    })
}

struct Table<'a> {
    file: &'a str,
    header: StringRecord,
    rows: Vec<StringRecord>,
}

struct Row<'a> {
    table: &'a Table<'a>,
    record: &'a StringRecord,
}

impl<'a> Table<'a> {
    fn read(file: &'a str, text: &str, required: &[&str]) -> Result<Self, ImportError> {
        let mut reader = ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let refuse = |error: &csv::Error| ImportError::Csv {
            file: file.to_owned(),
            line: error.position().map_or(1, csv::Position::line),
            column: None,
            reason: reason(error),
        };
        let header = reader.headers().map_err(|error| refuse(&error))?.clone();
        if let Some(missing) =
            required.iter().find(|name| !header.iter().any(|column| column == **name))
        {
            let found: Vec<&str> = header.iter().collect();
            return Err(ImportError::Csv {
                file: file.to_owned(),
                line: 1,
                column: None,
                reason: format!(
                    "there is no column {missing:?}; the columns are {}",
                    found.join(", ")
                ),
            });
        }
        let rows =
            reader.records().collect::<Result<Vec<_>, _>>().map_err(|error| refuse(&error))?;
        Ok(Self { file, header, rows })
    }

    fn map(
        &self,
        make: impl Fn(&Row<'_>) -> Result<(Value, Option<Timestamp>), ImportError>,
    ) -> Result<Vec<Document>, ImportError> {
        let document = |record| {
            let row = Row { table: self, record };
            let place = SourceLocation {
                file: self.file.into(),
                document: None,
                item: None,
                line: Some(row.line()),
            };
            let (value, ends) = make(&row)?;
            Ok(Document { place, text: None, path: Vec::new(), value, is_asked: false, ends })
        };
        self.rows.iter().map(document).collect()
    }
}

impl Row<'_> {
    fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }

    /// A field, empty if there is no such column.
    fn text(&self, column: &str) -> &str {
        let idx = self.table.header.iter().position(|name| name == column);
        idx.and_then(|idx| self.record.get(idx)).unwrap_or_default()
    }

    fn has(&self, column: &str) -> bool {
        self.table.header.iter().any(|name| name == column)
    }

    fn name(&self, column: &str) -> Result<&str, ImportError> {
        match self.text(column) {
            "" => Err(self.refuse(column, "expected a name, found nothing")),
            name => Ok(name),
        }
    }

    fn number(&self, column: &str) -> Result<u32, ImportError> {
        let text = self.text(column);
        text.parse().map_err(|_| {
            self.refuse(
                column,
                &format!("expected a whole number from 0 to {}, found {text:?}", u32::MAX),
            )
        })
    }

    /// A number, or 0 if the field is empty or there is no such column.
    fn number_or_zero(&self, column: &str) -> Result<u32, ImportError> {
        if self.text(column).is_empty() { Ok(0) } else { self.number(column) }
    }

    /// When a task is created and, if that is known, deleted. Without times of creation those of deletion mean nothing.
    fn lifetime(&self) -> Result<(Timestamp, Option<Timestamp>), ImportError> {
        let at = |seconds: i64| Timestamp::from_millis(seconds.saturating_mul(1000));
        if !self.has("creation_time") {
            return Ok((at(i64::try_from(self.line()).unwrap_or(i64::MAX)), None));
        }
        let created = self.number("creation_time")?;
        if self.text("deletion_time").is_empty() {
            return Ok((at(created.into()), None));
        }
        let ends = self.number("deletion_time")?;
        if ends < created {
            let reason =
                format!("expected no less than creation_time, which is {created}, found {ends}");
            return Err(self.refuse("deletion_time", &reason));
        }
        Ok((at(created.into()), Some(at(ends.into()))))
    }

    fn refuse(&self, column: &str, reason: &str) -> ImportError {
        let idx = self.table.header.iter().position(|name| name == column);
        ImportError::Csv {
            file: self.table.file.to_owned(),
            line: self.line(),
            column: idx.and_then(|idx| u64::try_from(idx + 1).ok()),
            reason: format!("{column}: {reason}"),
        }
    }
}

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("expected {expected_len} fields as in the first line, found {len}")
        }
        csv::ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
        _ => error.to_string(),
    }
}

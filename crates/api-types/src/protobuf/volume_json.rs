//! The rarer volume sources as the JSON that the API server would have sent, by tables of their fields.
//!
//! No decision reads most of what is in them; signatures compare it and a few are translated to CSI drivers. Keeping the
//! text the same in both forms keeps everything behind it the same.

use serde_json::{Map, Value as Json};

use super::Value;
use super::fault::FieldContext;
use super::fields::{FieldResult, fields};
use super::reader::Reader;

/// One kind of source.
pub(super) struct Source {
    number: u32,
    /// The field of the volume.
    pub(super) name: &'static str,
    fields: &'static [KnownField],
}

type KnownField = (u32, &'static str, Form);

/// How a field is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A text that is always there.
    Text,
    /// A text that is left out when empty.
    OptionalText,
    /// A text that is there if it was given.
    GivenText,
    /// A boolean that is left out when false.
    Bool,
    /// A boolean that is there if it was given.
    GivenBool,
    /// An integer that is there if it was given.
    GivenInt,
    /// A list that is left out when empty.
    Texts,
    /// A list that is `null` when empty.
    NullableTexts,
    /// A map that is left out when empty.
    Map,
    /// The name of another object in an object, if it was given.
    Reference,
    /// The same, `null` otherwise.
    NullableReference,
}

use Form::{
    Bool, GivenBool, GivenInt, GivenText, Map as TextMap, NullableReference, NullableTexts,
    OptionalText, Reference, Text, Texts,
};

const SOURCES: [Source; 18] = [
    Source { number: 1, name: "hostPath", fields: &[(1, "path", Text), (2, "type", GivenText)] },
    Source {
        number: 5,
        name: "gitRepo",
        fields: &[
            (1, "repository", Text),
            (2, "revision", OptionalText),
            (3, "directory", OptionalText),
        ],
    },
    Source {
        number: 7,
        name: "nfs",
        fields: &[(1, "server", Text), (2, "path", Text), (3, "readOnly", Bool)],
    },
    Source {
        number: 9,
        name: "glusterfs",
        fields: &[(1, "endpoints", Text), (2, "path", Text), (3, "readOnly", Bool)],
    },
    Source {
        number: 12,
        name: "flexVolume",
        fields: &[
            (1, "driver", Text),
            (2, "fsType", OptionalText),
            (3, "secretRef", Reference),
            (4, "readOnly", Bool),
            (5, "options", TextMap),
        ],
    },
    Source {
        number: 13,
        name: "cinder",
        fields: &[
            (1, "volumeID", Text),
            (2, "fsType", OptionalText),
            (3, "readOnly", Bool),
            (4, "secretRef", Reference),
        ],
    },
    Source {
        number: 14,
        name: "cephfs",
        fields: &[
            (1, "monitors", NullableTexts),
            (2, "path", OptionalText),
            (3, "user", OptionalText),
            (4, "secretFile", OptionalText),
            (5, "secretRef", Reference),
            (6, "readOnly", Bool),
        ],
    },
    Source {
        number: 15,
        name: "flocker",
        fields: &[(1, "datasetName", OptionalText), (2, "datasetUUID", OptionalText)],
    },
    Source {
        number: 17,
        name: "fc",
        fields: &[
            (1, "targetWWNs", Texts),
            (2, "lun", GivenInt),
            (3, "fsType", OptionalText),
            (4, "readOnly", Bool),
            (5, "wwids", Texts),
        ],
    },
    Source {
        number: 18,
        name: "azureFile",
        fields: &[(1, "secretName", Text), (2, "shareName", Text), (3, "readOnly", Bool)],
    },
    Source {
        number: 20,
        name: "vsphereVolume",
        fields: &[
            (1, "volumePath", Text),
            (2, "fsType", OptionalText),
            (3, "storagePolicyName", OptionalText),
            (4, "storagePolicyID", OptionalText),
        ],
    },
    Source {
        number: 21,
        name: "quobyte",
        fields: &[
            (1, "registry", Text),
            (2, "volume", Text),
            (3, "readOnly", Bool),
            (4, "user", OptionalText),
            (5, "group", OptionalText),
            (6, "tenant", OptionalText),
        ],
    },
    Source {
        number: 22,
        name: "azureDisk",
        fields: &[
            (1, "diskName", Text),
            (2, "diskURI", Text),
            (3, "cachingMode", GivenText),
            (4, "fsType", GivenText),
            (5, "readOnly", GivenBool),
            (6, "kind", GivenText),
        ],
    },
    Source {
        number: 23,
        name: "photonPersistentDisk",
        fields: &[(1, "pdID", Text), (2, "fsType", OptionalText)],
    },
    Source {
        number: 24,
        name: "portworxVolume",
        fields: &[(1, "volumeID", Text), (2, "fsType", OptionalText), (3, "readOnly", Bool)],
    },
    Source {
        number: 25,
        name: "scaleIO",
        fields: &[
            (1, "gateway", Text),
            (2, "system", Text),
            (3, "secretRef", NullableReference),
            (4, "sslEnabled", Bool),
            (5, "protectionDomain", OptionalText),
            (6, "storagePool", OptionalText),
            (7, "storageMode", OptionalText),
            (8, "volumeName", OptionalText),
            (9, "fsType", OptionalText),
            (10, "readOnly", Bool),
        ],
    },
    Source {
        number: 27,
        name: "storageos",
        fields: &[
            (1, "volumeName", OptionalText),
            (2, "volumeNamespace", OptionalText),
            (3, "fsType", OptionalText),
            (4, "readOnly", Bool),
            (5, "secretRef", Reference),
        ],
    },
    Source {
        number: 30,
        name: "image",
        fields: &[(1, "reference", OptionalText), (2, "pullPolicy", OptionalText)],
    },
];

/// The source behind a field number of a volume.
pub(super) fn source(number: u32) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.number == number)
}

/// The JSON text of a source, with sorted keys.
pub(super) fn json(source: &Source, bytes: &[u8]) -> FieldResult<String> {
    let mut object = Map::new();
    for (_, name, form) in source.fields {
        match form {
            Text => drop(object.insert((*name).to_owned(), Json::from(""))),
            NullableTexts | NullableReference => {
                drop(object.insert((*name).to_owned(), Json::Null));
            }
            _ => {}
        }
    }
    fields(bytes, |number, value| {
        let known = source.fields.iter().find(|(known, _, _)| *known == number);
        let Some((_, name, form)) = known else { return Ok(()) };
        take(&mut object, name, *form, value).at(name)
    })?;
    let mut json = Json::Object(object);
    json.sort_all_objects();
    Ok(json.to_string())
}

fn take(object: &mut Map<String, Json>, name: &str, form: Form, value: Value<'_>) -> FieldResult {
    let new = match form {
        Text | GivenText => Json::from(value.str()?),
        // What the JSON form leaves out when it is empty must not be there; an earlier value of the field is overridden.
        OptionalText => match value.str()? {
            "" => return remove(object, name),
            text => Json::from(text),
        },
        Bool if !value.bool()? => return remove(object, name),
        Bool | GivenBool => Json::from(value.bool()?),
        GivenInt => Json::from(value.int32()?),
        // A repeated field comes one element at a time, and so does a map.
        Texts | NullableTexts => {
            let text = Json::from(value.str()?);
            match object.get_mut(name).and_then(Json::as_array_mut) {
                Some(list) => {
                    list.push(text);
                    return Ok(());
                }
                None => Json::from(vec![text]),
            }
        }
        TextMap => {
            let (key, text) = entry(value)?;
            match object.get_mut(name).and_then(Json::as_object_mut) {
                Some(map) => {
                    map.insert(key, text);
                    return Ok(());
                }
                None => Json::Object(Map::from_iter([(key, text)])),
            }
        }
        Reference | NullableReference => {
            let mut reference = Map::new();
            fields(value.bytes()?, |number, value| {
                let name = if number == 1 { value.str()? } else { "" };
                if !name.is_empty() {
                    reference.insert("name".to_owned(), name.into());
                }
                Ok(())
            })?;
            Json::Object(reference)
        }
    };
    object.insert(name.to_owned(), new);
    Ok(())
}

fn remove(object: &mut Map<String, Json>, name: &str) -> FieldResult {
    object.remove(name);
    Ok(())
}

fn entry(value: Value<'_>) -> FieldResult<(String, Json)> {
    let (mut key, mut text) = ("", "");
    let mut reader = Reader::new(value.bytes()?);
    while let Some(field) = reader.next()? {
        match field.number {
            1 => key = field.value.str()?,
            2 => text = field.value.str()?,
            _ => {}
        }
    }
    Ok((key.to_owned(), text.into()))
}

//! Selectors in CEL, as DeviceClasses and ResourceClaims have them (`docs/spec/plugins-dra.md` §9).

use kube_scheduler_api_types::Quantity;
use kube_scheduler_cel::{
    AttributeValue, DeviceInput, Environment, Options, Program, SELECTOR_COST_LIMIT, Version,
};

use crate::api::Attribute;
use crate::facts::DeviceFacts;
use crate::selectors::{ExpressionError, Selector, SelectorCompiler};

/// Compiles selectors that are CEL expressions.
#[derive(Clone, Copy, Debug, Default)]
pub struct CelSelectors {
    environment: Environment,
}

impl CelSelectors {
    /// Whether attributes may be lists is up to the feature gate `DRAListTypeAttributes`.
    pub fn new(list_type_attributes: bool) -> Self {
        let mut options = Options::default();
        options.list_type_attributes = list_type_attributes;
        Self { environment: Environment::devices(options) }
    }
}

impl SelectorCompiler for CelSelectors {
    fn compile(
        &self,
        expression: &str,
        cost: &mut u64,
    ) -> Result<Box<dyn Selector>, ExpressionError> {
        match self.environment.compile_metered(expression, cost) {
            Ok(program) => Ok(Box::new(CelSelector(program))),
            Err(error) => Err(error.to_string().into()),
        }
    }
}

struct CelSelector(Program);

/// The versions of an attribute, parsed, or why they cannot be.
enum Versions {
    None,
    Parsed(Vec<Version>),
    Unusable(String),
}

impl Versions {
    fn of(attribute: &Attribute) -> Self {
        let texts = match attribute {
            Attribute::Version(text) => std::slice::from_ref(text),
            Attribute::Versions(texts) => texts,
            _ => return Self::None,
        };
        let parsed: Result<_, _> = texts.iter().map(|text| Version::parse(text)).collect();
        parsed.map_or_else(
            |error| Self::Unusable(format!("parse semantic version: {error}")),
            Self::Parsed,
        )
    }
}

impl Selector for CelSelector {
    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }

    fn matches(&self, device: DeviceFacts<'_>, cost: &mut u64) -> Result<bool, ExpressionError> {
        let versions: Vec<Versions> =
            device.attributes.iter().map(|(_, attribute)| Versions::of(attribute)).collect();
        let attributes: Vec<(&str, AttributeValue<'_>)> = device
            .attributes
            .iter()
            .zip(&versions)
            .map(|((name, attribute), versions)| (&**name, value(attribute, versions)))
            .collect();
        let capacity: Vec<(&str, &Quantity)> =
            device.capacity.iter().map(|(name, capacity)| (&**name, &capacity.value)).collect();
        let device = DeviceInput {
            driver: device.driver,
            allow_multiple_allocations: device.allow_multiple_allocations,
            attributes: &attributes,
            capacity: &capacity,
        };
        match self.0.evaluate(&device, SELECTOR_COST_LIMIT) {
            Ok(outcome) => {
                *cost = cost.saturating_add(outcome.cost).saturating_add(outcome.steps);
                Ok(outcome.value)
            }
            Err(error) => {
                // Otherwise selectors that fail would be evaluated without limit.
                *cost = cost.saturating_add(error.cost).saturating_add(error.steps);
                Err(error.to_string().into())
            }
        }
    }
}

fn value<'a>(attribute: &'a Attribute, versions: &'a Versions) -> AttributeValue<'a> {
    match (attribute, versions) {
        (_, Versions::Unusable(why)) => AttributeValue::Unusable(why),
        (Attribute::Versions(_), Versions::Parsed(parsed)) => AttributeValue::Versions(parsed),
        (_, Versions::Parsed(parsed)) => match parsed.first() {
            Some(version) => AttributeValue::Version(version),
            None => AttributeValue::Unusable("unsupported attribute value"),
        },
        (Attribute::String(text), _) => AttributeValue::String(text),
        (Attribute::Int(number), _) => AttributeValue::Int(*number),
        (Attribute::Bool(truth), _) => AttributeValue::Bool(*truth),
        (Attribute::Strings(texts), _) => AttributeValue::Strings(texts),
        (Attribute::Ints(numbers), _) => AttributeValue::Ints(numbers),
        (Attribute::Bools(truths), _) => AttributeValue::Bools(truths),
        _ => AttributeValue::Unusable("unsupported attribute value"),
    }
}

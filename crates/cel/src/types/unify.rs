//! Which types fit where, and what type variables stand for (spec/cel.md §3).

use std::sync::Arc;

use super::Type;

/// What each type variable stands for, if known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substitution {
    bound: Vec<Option<Type>>,
    /// What variables stood for before the attempt under way bound them.
    undo: Vec<(u32, Option<Type>)>,
}

impl Substitution {
    pub(crate) fn fresh(&mut self) -> Type {
        let variable = u32::try_from(self.bound.len()).unwrap_or(u32::MAX);
        self.bound.push(None);
        Type::Variable(variable)
    }

    fn get(&self, variable: u32) -> Option<&Type> {
        self.bound.get(variable as usize)?.as_ref()
    }

    fn bind(&mut self, variable: u32, to: &Type) {
        if let Some(slot) = self.bound.get_mut(variable as usize) {
            let before = slot.replace(to.clone());
            self.undo.push((variable, before));
        }
    }

    /// Whether each of `from` can be used where `to` is wanted. What is learnt about variables is kept only if so.
    pub(crate) fn unify_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        let fits = from.len() == to.len()
            && from.iter().zip(to).all(|(from, to)| self.assignable(from, to));
        while let Some((variable, before)) = self.undo.pop() {
            if let Some(slot) = self.bound.get_mut(variable as usize).filter(|_| !fits) {
                *slot = before;
            }
        }
        fits
    }

    pub(crate) fn unify(&mut self, from: &Type, to: &Type) -> bool {
        self.unify_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Variable(variable) = to {
            let (fits, is_bound) = self.substitutes(from, *variable);
            if fits || is_bound {
                return fits;
            }
        }
        if let Type::Variable(variable) = from {
            return self.substitutes(to, *variable).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(from), Type::List(to)) => self.assignable(from, to),
            (Type::Map(from), Type::Map(to)) => {
                self.assignable(&from.0, &to.0) && self.assignable(&from.1, &to.1)
            }
            (Type::Opaque(name, from), Type::Opaque(other, to)) => {
                name == other
                    && from.len() == to.len()
                    && from.iter().zip(to.iter()).all(|(from, to)| self.assignable(from, to))
            }
            _ => from == to,
        }
    }

    /// Whether `variable` can stand for `candidate`, and whether it stood for something before.
    fn substitutes(&mut self, candidate: &Type, variable: u32) -> (bool, bool) {
        if *candidate == Type::Variable(variable) {
            return (true, true);
        }
        if let Some(bound) = self.get(variable).cloned() {
            if *candidate == bound {
                return (true, true);
            }
            if !self.assignable(candidate, &bound) {
                return (false, true);
            }
            let general = most_general(candidate, &bound);
            if !self.occurs(variable, &general) {
                self.bind(variable, &general);
            }
            return (true, true);
        }
        if self.occurs(variable, candidate) {
            return (false, false);
        }
        self.bind(variable, candidate);
        (true, false)
    }

    /// Whether the variable is part of the type.
    fn occurs(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Variable(other) => {
                *other == variable
                    || self.get(*other).is_some_and(|bound| self.occurs(variable, bound))
            }
            other => other.parameters().into_iter().any(|part| self.occurs(variable, part)),
        }
    }

    /// The type with variables replaced by what they stand for; unknown ones stay, or become dyn.
    pub(crate) fn apply(&self, to: &Type, is_final: bool) -> Type {
        match to {
            Type::Variable(variable) => match self.get(*variable) {
                Some(bound) => self.apply(bound, is_final),
                None if is_final => Type::Dyn,
                None => to.clone(),
            },
            Type::List(element) => Type::list(self.apply(element, is_final)),
            Type::Map(entry) => {
                Type::map(self.apply(&entry.0, is_final), self.apply(&entry.1, is_final))
            }
            Type::Type(Some(inner)) => Type::type_of(self.apply(inner, is_final)),
            Type::Opaque(name, parameters) => {
                let parameters: Arc<[_]> =
                    parameters.iter().map(|parameter| self.apply(parameter, is_final)).collect();
                Type::Opaque(name, parameters)
            }
            other => other.clone(),
        }
    }
}

/// The more general of two types that fit each other.
pub(crate) fn most_general(a: &Type, b: &Type) -> Type {
    if is_no_more_specific(a, b) { a.clone() } else { b.clone() }
}

fn is_no_more_specific(a: &Type, b: &Type) -> bool {
    let is_open = |of: &Type| of.is_dyn() || matches!(of, Type::Variable(_));
    if is_open(a) {
        return true;
    }
    if is_open(b) {
        return false;
    }
    match (a, b) {
        (Type::Opaque(name, a), Type::Opaque(other, b)) => {
            name == other
                && a.len() == b.len()
                && a.iter().zip(b.iter()).all(|(a, b)| is_no_more_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => is_no_more_specific(a, b),
        (Type::Map(a), Type::Map(b)) => {
            is_no_more_specific(&a.0, &b.0) && is_no_more_specific(&a.1, &b.1)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => a == b,
    }
}

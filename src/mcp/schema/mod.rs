//! Input schemas, compiled to what coercion asks of them: which JSON types may stand where.
//!
//! Owns a conservative reading of JSON Schema: what it does not understand allows everything, so nothing is
//! ever called refused by mistake. Validates no values. Invariant: compiling and asking are bounded in time,
//! memory and stack, also for schemas that refer to themselves.

mod compile;
mod headers;
mod types;

use std::collections::HashMap;

pub use headers::header_params;
pub use types::{Literal, Probe, Types};

use super::json::hash::FoldState;

/// Subschemas kept for one place. Leaving one out only leaves more allowed there.
const MAX_APPLICABLE: usize = 7;

/// Steps that one question about a scalar may take.
const MAX_STEPS: usize = 256;

/// Index of a subschema.
type Id = u32;

/// A compiled input schema.
#[derive(Debug, Clone)]
pub struct Schema {
    nodes: Vec<Node>,
}

/// One subschema.
#[derive(Debug, Clone, Default)]
struct Node {
    /// What `type`, `enum` and `const` of this subschema allow.
    own: Types,
    /// `own`, narrowed by `$ref`, `allOf`, `anyOf` and `oneOf`.
    allowed: Types,
    literals: Option<Vec<Literal>>,
    properties: HashMap<Box<str>, Id, FoldState>,
    /// A bit for each length and first byte that a property has: most other names are told by it.
    names: u64,
    /// `properties` is there, be it empty.
    lists_properties: bool,
    /// Members beyond `properties` are described too, or are said to be welcome.
    open: bool,
    additional: Option<Id>,
    prefix: Vec<Id>,
    items: Option<Id>,
    /// Subschemas that always apply as well: `$ref`, `allOf`.
    always: Vec<Id>,
    /// Lists of alternatives: `anyOf`, `oneOf`.
    groups: Vec<Vec<Id>>,
    /// Subschemas that may declare further properties: `if`, `then`, `else`, `dependentSchemas`, `not`.
    conditional: Vec<Id>,
    /// Refers to something that is not in this document.
    unresolved: bool,
}

/// The subschemas that apply at one place of a value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    ids: [Id; MAX_APPLICABLE],
    len: u32,
}

impl Schema {
    /// Compiles a schema. `None` if it is no schema or too large to be worth it.
    #[must_use]
    pub fn compile(schema: &serde_json::Value) -> Option<Self> {
        compile::compile(schema)
    }

    /// How many subschemas it has, each some 250 bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    fn nodes(&self, place: Place) -> impl Iterator<Item = &Node> {
        place.into_iter().filter_map(|id| self.node(id))
    }

    /// The place of the arguments themselves.
    pub(super) fn root(&self) -> Place {
        Place::of([0])
    }

    /// The types allowed at a place.
    pub(super) fn allowed(&self, place: Place) -> Types {
        self.nodes(place).fold(Types::ALL, |all, node| all & node.allowed)
    }

    /// `place` and everything that certainly applies to a value of type `kind` there.
    fn expand(&self, place: Place, kind: Types) -> Place {
        let mut all = place;
        if self.nodes(place).all(|n| n.always.is_empty() && n.groups.is_empty()) {
            return all;
        }
        let mut next = 0;
        while let Some(node) = all.get(next).and_then(|id| self.node(id)) {
            next += 1;
            let single = node.groups.iter().filter_map(|group| self.only(group, kind));
            for id in node.always.iter().copied().chain(single) {
                all.add(id);
            }
        }
        all
    }

    /// The one alternative that allows `kind`; `None` if there are more or none.
    fn only(&self, group: &[Id], kind: Types) -> Option<Id> {
        let mut fitting = group.iter().filter(|id| self.node(**id).is_some_and(|n| n.allowed.meets(kind)));
        match (fitting.next(), fitting.next()) {
            (Some(id), None) => Some(*id),
            _ => None,
        }
    }

    /// Everything that applies to an object at `place`; `None` if none of it says anything about members.
    pub(super) fn object(&self, place: Place) -> Option<Place> {
        let all = self.expand(place, Types::OBJECT);
        let tells = self.nodes(all).any(|n| !n.properties.is_empty() || n.additional.is_some());
        tells.then_some(all)
    }

    /// The place of a member of an object; `object` comes from [`Schema::object`].
    pub(super) fn member(&self, object: Place, name: &str) -> Place {
        let bit = name_bit(name);
        let of = |n: &Node| {
            let property = if n.names & bit == 0 { None } else { n.properties.get(name) };
            property.copied().or(n.additional)
        };
        Place::of(self.nodes(object).filter_map(of))
    }

    /// Everything that applies to an array at `place`; `None` if none of it says anything about elements.
    pub(super) fn array(&self, place: Place) -> Option<Place> {
        let all = self.expand(place, Types::ARRAY);
        let tells = self.nodes(all).any(|n| n.items.is_some() || !n.prefix.is_empty());
        tells.then_some(all)
    }

    /// The place of an element of an array, and whether all later elements have the same.
    pub(super) fn element(&self, array: Place, index: usize) -> (Place, bool) {
        let of = |n: &Node| n.prefix.get(index).copied().or(n.items);
        let last = self.nodes(array).all(|n| index >= n.prefix.len());
        (Place::of(self.nodes(array).filter_map(of)), last)
    }

    /// The place of the elements of an array that may stand at `place`, if `items` alone tells it.
    pub(super) fn only_items(&self, place: Place) -> Option<Place> {
        let all = self.array(place)?;
        let tuple = self.nodes(all).any(|n| !n.prefix.is_empty());
        let items = Place::of(self.nodes(all).filter_map(|n| n.items));
        (!tuple && !items.is_unknown()).then_some(items)
    }

    /// Whether the probed value, of type `kind`, is allowed at `place`, as far as types, `enum` and
    /// `const` tell. False when in doubt.
    pub(super) fn accepts(&self, place: Place, kind: Types, probe: Probe<'_>) -> bool {
        let mut steps = MAX_STEPS;
        place.into_iter().all(|id| self.node_accepts(id, kind, probe, 0, &mut steps))
    }

    fn node_accepts(&self, id: Id, kind: Types, probe: Probe<'_>, depth: usize, steps: &mut usize) -> bool {
        let Some(node) = self.node(id) else { return false };
        if *steps == 0 || depth > 16 || !node.allowed.meets(kind) {
            return false;
        }
        *steps -= 1;
        let mut ask = |id: &Id| self.node_accepts(*id, kind, probe, depth + 1, steps);
        node.literals.as_ref().is_none_or(|all| all.iter().any(|one| one.is(probe)))
            && node.always.iter().all(&mut ask)
            && node.groups.iter().all(|group| group.iter().any(&mut ask))
    }

    /// Whether the root declares a member called `name`, or welcomes members that it does not declare. True
    /// when in doubt.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.everywhere(|n| n.unresolved || n.open || n.properties.contains_key(name))
            || !self.everywhere(|n| n.lists_properties)
    }

    /// Whether the root certainly describes a member called `name`.
    pub(super) fn describes(&self, name: &str) -> bool {
        let all = self.expand(self.root(), Types::OBJECT);
        self.nodes(all).any(|n| n.properties.contains_key(name))
    }

    /// Whether `holds` for the root or anything that may apply to the same value.
    fn everywhere(&self, holds: impl Fn(&Node) -> bool) -> bool {
        let (mut seen, mut next) = (vec![0], 0);
        while let Some(node) = seen.get(next).and_then(|id| self.node(*id)) {
            if holds(node) {
                return true;
            }
            next += 1;
            for id in node.always.iter().chain(node.groups.iter().flatten()).chain(&node.conditional) {
                if !seen.contains(id) {
                    seen.push(*id);
                }
            }
            if seen.len() > MAX_STEPS {
                return true;
            }
        }
        false
    }
}

/// The bit of [`Node::names`] for a name.
#[inline]
fn name_bit(name: &str) -> u64 {
    let first = name.as_bytes().first().copied().unwrap_or(0);
    1 << ((name.len() * 7 + usize::from(first)) % 64)
}

impl Place {
    fn of(ids: impl IntoIterator<Item = Id>) -> Self {
        let mut place = Self::default();
        ids.into_iter().for_each(|id| place.add(id));
        place
    }

    fn get(&self, at: usize) -> Option<Id> {
        self.ids[..self.len as usize].get(at).copied()
    }

    fn add(&mut self, id: Id) {
        let len = self.len as usize;
        if len < MAX_APPLICABLE && !self.ids[..len].contains(&id) {
            self.ids[len] = id;
            self.len += 1;
        }
    }

    fn into_iter(self) -> impl Iterator<Item = Id> {
        self.ids.into_iter().take(self.len as usize)
    }

    /// Whether nothing is known about this place.
    pub(super) fn is_unknown(&self) -> bool {
        self.len == 0
    }
}

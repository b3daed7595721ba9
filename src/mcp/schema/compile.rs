//! Compiling a schema document into nodes. A work list instead of recursion, so that chains of `$ref` cost no
//! stack; a cap on nodes, so that a hostile schema costs no memory.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{Id, Literal, Node, Schema, Types};

/// Subschemas that one tool may have.
const MAX_NODES: usize = 10_000;

/// Rounds in which `allowed` is narrowed. Stopping early only leaves more allowed.
const ROUNDS: usize = 16;

pub(super) fn compile(root: &Value) -> Option<Schema> {
    if !root.is_object() {
        return None;
    }
    let mut compiler = Compiler { root, nodes: Vec::new(), work: Vec::new(), places: HashMap::new() };
    compiler.add(root);
    while let Some((id, value)) = compiler.work.pop() {
        let node = compiler.node(value);
        compiler.nodes[id as usize] = node;
        if compiler.nodes.len() > MAX_NODES {
            return None;
        }
    }
    let mut nodes = compiler.nodes;
    narrow(&mut nodes);
    Some(Schema { nodes })
}

struct Compiler<'v> {
    root: &'v Value,
    nodes: Vec<Node>,
    work: Vec<(Id, &'v Value)>,
    /// Targets of `$ref`, so that each is compiled once.
    places: HashMap<&'v str, Id>,
}

impl<'v> Compiler<'v> {
    fn add(&mut self, value: &'v Value) -> Id {
        let id = self.nodes.len() as Id;
        self.nodes.push(Node::default());
        self.work.push((id, value));
        id
    }

    fn node(&mut self, value: &'v Value) -> Node {
        let mut node = Node::default();
        match value {
            Value::Bool(false) => node.own = Types::NONE,
            Value::Object(schema) => self.keywords(&mut node, schema),
            _ => {}
        }
        node.allowed = node.own;
        node
    }

    fn keywords(&mut self, node: &mut Node, schema: &'v Map<String, Value>) {
        types(node, schema);
        self.members(node, schema);
        self.elements(node, schema);
        self.combinations(node, schema);
        if let Some(target) = schema.get("$ref") {
            match target.as_str().and_then(|t| self.reference(t)) {
                Some(id) => node.always.push(id),
                None => node.unresolved = true,
            }
        }
        node.unresolved |= schema.contains_key("$dynamicRef") || schema.contains_key("$recursiveRef");
    }

    fn members(&mut self, node: &mut Node, schema: &'v Map<String, Value>) {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            node.lists_properties = true;
            for (name, value) in properties {
                let id = self.add(value);
                node.properties.insert(name.as_str().into(), id);
                node.names |= super::name_bit(name);
            }
        }
        let patterns =
            schema.get("patternProperties").is_some_and(|p| p.as_object().is_none_or(|p| !p.is_empty()));
        match schema.get("additionalProperties").or(schema.get("unevaluatedProperties")) {
            None | Some(Value::Bool(false)) => {}
            Some(rest) => {
                node.open = true;
                // A name that a pattern may match is not `additional`; which one does is not looked at.
                node.additional = (!patterns && rest.is_object()).then(|| self.add(rest));
            }
        }
        node.open |= patterns;
    }

    fn elements(&mut self, node: &mut Node, schema: &'v Map<String, Value>) {
        let (items, prefix) = match (schema.get("items"), schema.get("prefixItems")) {
            (Some(Value::Array(prefix)), _) => (schema.get("additionalItems"), Some(prefix)),
            (items, Some(Value::Array(prefix))) => (items, Some(prefix)),
            (items, _) => (items, None),
        };
        node.items = items.map(|i| self.add(i));
        node.prefix = prefix.into_iter().flatten().map(|p| self.add(p)).collect();
    }

    fn combinations(&mut self, node: &mut Node, schema: &'v Map<String, Value>) {
        let list = |key: &str| schema.get(key).and_then(Value::as_array).filter(|l| !l.is_empty());
        node.always = list("allOf").into_iter().flatten().map(|s| self.add(s)).collect();
        for key in ["anyOf", "oneOf"] {
            if let Some(alternatives) = list(key) {
                let group = alternatives.iter().map(|s| self.add(s)).collect();
                node.groups.push(group);
            }
        }
        for key in ["if", "then", "else", "not"] {
            node.conditional.extend(schema.get(key).map(|s| self.add(s)));
        }
        if let Some(Value::Object(dependent)) = schema.get("dependentSchemas") {
            node.conditional.extend(dependent.values().map(|s| self.add(s)));
        }
    }

    /// The node for a `$ref` into this document: `#` or a JSON Pointer.
    fn reference(&mut self, target: &'v str) -> Option<Id> {
        if let Some(id) = self.places.get(target) {
            return Some(*id);
        }
        let pointer = target.strip_prefix('#')?;
        let id = if pointer.is_empty() {
            0
        } else {
            let decoded = || percent_decode_str(pointer).decode_utf8().ok();
            let value = self.root.pointer(pointer).or_else(|| self.root.pointer(&decoded()?))?;
            self.add(value)
        };
        self.places.insert(target, id);
        Some(id)
    }
}

/// `type`, `nullable`, `enum` and `const`.
fn types(node: &mut Node, schema: &Map<String, Value>) {
    let named = |v: &Value| v.as_str().map_or(Types::ALL, Types::named);
    node.own = match schema.get("type") {
        None => Types::ALL,
        Some(Value::Array(names)) => names.iter().fold(Types::NONE, |all, name| all | named(name)),
        Some(name) => named(name),
    };
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        node.own = node.own | Types::NULL;
    }
    let listed = match (schema.get("const"), schema.get("enum")) {
        (Some(one), _) => Some(vec![Literal::of(one)]),
        (None, Some(Value::Array(all))) => Some(all.iter().map(Literal::of).collect()),
        _ => None,
    };
    if let Some(literals) = &listed {
        node.own = node.own & literals.iter().fold(Types::NONE, |all, l: &Literal| all | l.types());
    }
    node.literals = listed;
}

/// Narrows what each node allows by what it refers to, until nothing changes.
fn narrow(nodes: &mut [Node]) {
    for _ in 0..ROUNDS {
        let mut changed = false;
        for at in 0..nodes.len() {
            let (node, of) = (&nodes[at], |id: &Id| nodes[*id as usize].allowed);
            let all = node.always.iter().map(of).fold(node.own, |a, b| a & b);
            let any = |group: &Vec<Id>| group.iter().map(of).fold(Types::NONE, |a, b| a | b);
            let allowed = node.groups.iter().map(any).fold(all, |a, b| a & b);
            changed |= allowed != node.allowed;
            nodes[at].allowed = allowed;
        }
        if !changed {
            return;
        }
    }
}

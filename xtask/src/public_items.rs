//! What a user of a crate can name: the public items that are reachable from its `lib.rs`.
//!
//! Counted are modules, types, traits, functions, constants, macros and re-exports of other crates;
//! and apart from them the methods and constants of traits and of inherent implementations. Hidden
//! items do not count, nor does what a macro makes: this reads the source, and expands nothing.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, ImplItem, Item, TraitItem, Type, UseTree, Visibility};

use crate::files::File;

/// The number of public items of a crate, and of their methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublicItems {
    pub(crate) items: usize,
    pub(crate) methods: usize,
}

/// Counts the public items of the crate whose sources are in this folder; 0 if it is no library.
///
/// # Errors
/// When a file is not Rust.
pub(crate) fn count(folder: &str, files: &[File]) -> Result<PublicItems, String> {
    let mut modules = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_production()) {
        let Some(path) = file.path.strip_prefix(folder).and_then(module_of) else { continue };
        let parsed = syn::parse_file(&file.text);
        let parsed = parsed.map_err(|error| format!("{}: {error}", file.path))?;
        add(&mut modules, path, parsed.items);
    }
    let mut walk = Walk { modules: &modules, found: BTreeSet::new() };
    walk.module(&[]);
    let types: BTreeSet<&str> = walk.found.iter().map(|(_, name)| name.as_str()).collect();
    let methods = modules.values().flatten().map(|item| methods(item, &types)).sum();
    Ok(PublicItems { items: walk.found.len(), methods })
}

type Path = Vec<String>;

/// The module of a file below `src`.
fn module_of(file: &str) -> Option<Path> {
    let path = file.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" => Some(Vec::new()),
        "main" => None,
        path if path.starts_with("bin/") => None,
        path => Some(path.split('/').map(str::to_owned).collect()),
    }
}

/// Adds a module, and those that it contains.
fn add(modules: &mut BTreeMap<Path, Vec<Item>>, path: Path, items: Vec<Item>) {
    for item in &items {
        if let Item::Mod(module) = item
            && let Some((_, inside)) = &module.content
            && !is_hidden(&module.attrs)
        {
            let path = [&path[..], &[module.ident.to_string()]].concat();
            add(modules, path, inside.clone());
        }
    }
    modules.insert(path, items);
}

struct Walk<'m> {
    modules: &'m BTreeMap<Path, Vec<Item>>,
    /// Where each item is defined, and its name. A re-export of another crate is defined where it
    /// is named.
    found: BTreeSet<(Path, String)>,
}

impl Walk<'_> {
    /// Finds all public items of a module.
    fn module(&mut self, path: &[String]) {
        for item in self.modules.get(path).into_iter().flatten() {
            match item {
                Item::Use(item) if is_public(&item.vis, &item.attrs) => {
                    self.re_export(path, Vec::new(), &item.tree);
                }
                item => {
                    if let Some((name, true)) = declared(item) {
                        self.item(path, &name);
                    }
                }
            }
        }
    }

    /// Finds one item, and what is in it if it is a module.
    fn item(&mut self, module: &[String], name: &str) {
        if self.found.insert((module.to_vec(), name.to_owned())) {
            self.module(&[module, &[name.to_owned()]].concat());
        }
    }

    /// Follows `pub use`, from `module`, of the names after `before`.
    fn re_export(&mut self, module: &[String], before: Path, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                let before = [before, vec![path.ident.to_string()]].concat();
                self.re_export(module, before, &path.tree);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.re_export(module, before.clone(), tree));
            }
            UseTree::Name(name) => self.named(module, &before, &name.ident.to_string()),
            UseTree::Rename(name) => self.named(module, &before, &name.ident.to_string()),
            UseTree::Glob(_) => {
                if let Some(source) = self.resolve(module, &before) {
                    self.module(&source);
                }
            }
        }
    }

    fn named(&mut self, module: &[String], before: &[String], name: &str) {
        let Some(source) = self.resolve(module, before) else {
            // Of another crate.
            self.found.insert((module.to_vec(), name.to_owned()));
            return;
        };
        let items = self.modules.get(&source).into_iter().flatten();
        let declares = |item: &Item| declared(item).is_some_and(|(declared, _)| declared == name);
        let mut uses = items.clone().filter_map(|item| match item {
            Item::Use(item) => leaf(&item.tree, name),
            _ => None,
        });
        match uses.next() {
            Some(before) if !items.clone().any(declares) => self.named(&source, &before, name),
            _ => self.item(&source, name),
        }
    }

    /// The module of this crate that a path names, seen from `module`.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<Path> {
        let mut source = module.to_vec();
        let mut names = path.iter().peekable();
        match names.peek().map(|name| name.as_str()) {
            Some("crate") => source.clear(),
            None | Some("self" | "super") => {}
            Some(name) => {
                let inside = [module, &[name.to_owned()]].concat();
                self.modules.contains_key(&inside).then_some(())?;
            }
        }
        for name in names {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => drop(source.pop()),
                name => source.push(name.to_owned()),
            }
        }
        Some(source)
    }
}

/// The path before `name` in a `use`, if it names it.
fn leaf(tree: &UseTree, name: &str) -> Option<Path> {
    match tree {
        UseTree::Path(path) => {
            let after = leaf(&path.tree, name)?;
            Some([vec![path.ident.to_string()], after].concat())
        }
        UseTree::Group(group) => group.items.iter().find_map(|tree| leaf(tree, name)),
        UseTree::Name(found) => (found.ident == name).then(Vec::new),
        UseTree::Rename(_) | UseTree::Glob(_) => None,
    }
}

/// The name of an item, and whether it is public.
fn declared(item: &Item) -> Option<(String, bool)> {
    let (name, vis, attributes) = match item {
        Item::Const(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Enum(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Fn(item) => (&item.sig.ident, &item.vis, &item.attrs),
        Item::Mod(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Static(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Struct(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Trait(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Type(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Macro(item) => {
            let is_exported = item.attrs.iter().any(|found| found.path().is_ident("macro_export"));
            return Some((item.ident.as_ref()?.to_string(), is_exported));
        }
        _ => return None,
    };
    Some((name.to_string(), is_public(vis, attributes)))
}

/// The public methods and constants that an item adds to a type of this list.
fn methods(item: &Item, types: &BTreeSet<&str>) -> usize {
    match item {
        Item::Trait(item) if types.contains(item.ident.to_string().as_str()) => {
            let shown = |item: &&TraitItem| match item {
                TraitItem::Fn(item) => !is_hidden(&item.attrs),
                TraitItem::Const(item) => !is_hidden(&item.attrs),
                TraitItem::Type(item) => !is_hidden(&item.attrs),
                _ => false,
            };
            item.items.iter().filter(shown).count()
        }
        Item::Impl(item) if item.trait_.is_none() && !is_hidden(&item.attrs) => {
            let Type::Path(of) = &*item.self_ty else { return 0 };
            let name = of.path.segments.last().map(|segment| segment.ident.to_string());
            if !name.is_some_and(|name| types.contains(name.as_str())) {
                return 0;
            }
            let shown = |item: &&ImplItem| match item {
                ImplItem::Fn(item) => is_public(&item.vis, &item.attrs),
                ImplItem::Const(item) => is_public(&item.vis, &item.attrs),
                _ => false,
            };
            item.items.iter().filter(shown).count()
        }
        _ => 0,
    }
}

fn is_public(vis: &Visibility, attributes: &[Attribute]) -> bool {
    matches!(vis, Visibility::Public(_)) && !is_hidden(attributes)
}

/// Whether it is left out of the documentation, or is for tests.
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let says = |word: &str| match attribute.meta.require_list() {
            Ok(list) => list.tokens.to_string() == word,
            Err(_) => false,
        };
        (attribute.path().is_ident("doc") && says("hidden"))
            || (attribute.path().is_ident("cfg") && (says("test") || says("doctest")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(files: &[(&str, &str)]) -> (usize, usize) {
        let file = |(path, text): &(&str, &str)| File::new(&format!("crates/a/src/{path}"), text);
        let files: Vec<File> = files.iter().map(file).collect();
        let PublicItems { items, methods } = count("crates/a/src/", &files).unwrap();
        (items, methods)
    }

    #[test]
    fn what_is_reachable_counts_once() {
        let lib = "pub mod open; mod closed; pub use closed::A; pub use open::f; pub struct S;";
        let closed = "pub struct A; pub struct B; impl A { pub fn a(&self) {} fn b(&self) {} }";
        let files = [("lib.rs", lib), ("open.rs", "pub fn f() {}"), ("closed/mod.rs", closed)];
        // open, f, A, S; A::a.
        assert_eq!(counted(&files), (4, 1));
    }

    #[test]
    fn re_exports_are_followed_through_private_modules() {
        let lib = "mod a; pub use a::B; pub use other::{C, D as E}; #[doc(hidden)] pub use a::F;";
        let files = [("lib.rs", lib), ("a/mod.rs", "mod b; pub use b::B;")];
        let inside = "pub trait B { fn one(); fn two() {} } pub struct F;";
        // B, C, D; two methods.
        assert_eq!(counted(&[&files[..], &[("a/b.rs", inside)]].concat()), (3, 2));
    }

    #[test]
    fn hidden_private_and_test_items_do_not_count() {
        let lib = "fn a() {} pub(crate) fn b() {} #[doc(hidden)] pub fn c() {} \
                   #[cfg(test)] pub mod tests { pub fn d() {} } macro_rules! e { () => {} }";
        assert_eq!(counted(&[("lib.rs", lib)]), (0, 0));
    }

    #[test]
    fn a_program_has_no_public_items() {
        assert_eq!(counted(&[("main.rs", "pub fn a() {}")]), (0, 0));
    }
}

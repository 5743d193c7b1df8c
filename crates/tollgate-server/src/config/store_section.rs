//! The store as a section of the file: its address, and each parameter as a field. It is the same
//! as one address with all of them.

use tollgate::authoring::text::percent_encoded;
use tollgate_service::config::yaml::Content;
use tollgate_service::config::{ConfigError, Section};

use crate::store;

/// The field with the address.
const URL: &str = "url";

/// The address of a store with the parameters of its section.
pub(super) fn address<'n>(
    file: &mut Section<'n>,
    name: &'static str,
    errors: &mut Vec<ConfigError>,
) -> Option<String> {
    let node = file.node(name)?;
    if !matches!(node.content, Content::Map(_)) {
        return file.text(name, errors).map(str::to_owned);
    }
    let mut section: Section<'n> = Section::of(node, name, errors)?;
    let Some(url) = section.text(URL, errors) else {
        section.error(URL, "is missing; write the address of a store", errors);
        return None;
    };
    let mut address = url.to_owned();
    // The address of an unknown scheme is an error, its fields are not.
    let Some(parameters) = store::parameters(url) else { return Some(address) };
    for parameter in parameters {
        if let Some(value) = section.text(parameter.name, errors) {
            let separator = if address.contains('?') { '&' } else { '?' };
            let value = percent_encoded(value);
            address = format!("{address}{separator}{}={value}", parameter.name);
        }
    }
    section.finish(errors);
    Some(address)
}

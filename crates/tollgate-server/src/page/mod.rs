//! The page for operators: static files in the binary, which read the status of this server.
//!
//! The files hold nothing that is secret and need no token; what they read does. Scripts and styles
//! come from here only, and the policy of the page permits no other.

use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use hyper::header::{HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use hyper::{HeaderMap, Response};

/// Nothing but files of this server and requests to it: no inline script or style, no frame, no
/// form that is sent, and no text that becomes markup.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($path:literal, $kind:literal, $file:literal;)*) => {
        const ASSETS: [Asset; [$($path),*].len()] =
            [$(Asset { path: $path, kind: $kind, text: include_str!($file) }),*];
    };
}

assets! {
    "/", "text/html; charset=utf-8", "index.html";
    "/page/app.css", "text/css; charset=utf-8", "app.css";
    "/page/app.js", "text/javascript; charset=utf-8", "app.js";
    "/page/client.js", "text/javascript; charset=utf-8", "client.js";
    "/page/dom.js", "text/javascript; charset=utf-8", "dom.js";
    "/page/plot.js", "text/javascript; charset=utf-8", "plot.js";
    "/page/search.js", "text/javascript; charset=utf-8", "search.js";
    "/page/views.js", "text/javascript; charset=utf-8", "views.js";
    "/page/force.js", "text/javascript; charset=utf-8", "force.js";
    "/page/icon.svg", "image/svg+xml", "icon.svg";
}

impl Asset {
    /// The file at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        ASSETS.into_iter().find(|asset| asset.path == path)
    }

    /// The response.
    pub(crate) fn response(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from_static(self.text.as_bytes()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(CONTENT_SECURITY_POLICY, POLICY);
        // The files of another version do not fit to each other.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        protect(headers);
        response
    }
}

/// What every answer for a browser has.
pub(crate) fn protect(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_only_files_that_exist_and_nothing_elsewhere() {
        for asset in ASSETS {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '-');
            for word in asset.text.split(|c| !is_name(c)) {
                let Some(file) = word.rsplit('/').next() else { continue };
                if [".js", ".css", ".svg"].iter().any(|end| file.ends_with(end)) {
                    let path = format!("/page/{file}");
                    assert!(Asset::at(&path).is_some(), "{} names {word}", asset.path);
                }
            }
            let outside = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!outside.contains("://"), "{}", asset.path);
            for inline in ["<style", "style=", "onclick", "innerHTML", "javascript:"] {
                assert!(!asset.text.contains(inline), "{} has {inline}", asset.path);
            }
        }
    }
}

//! workerd, the runtime of Cloudflare's Workers, with Durable Objects, D1 and Workers KV.
//!
//! miniflare configures it: the simulator that Cloudflare's own tools use. `build` makes what it
//! runs.

mod build;

pub use build::{build, build_with};

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::error::{AtPath, Result};
use super::http::Connection;
use super::install::{NodeJs, make_executable, program};
use super::process::server_command;
use super::server::{Resources, Server, ServerSpec};

/// The newest major version that runs on Node.js 20.
const NAME: &str = "miniflare-4";
const PACKAGE: &str = include_str!("runtime/package.json");
const LOCK: &str = include_str!("runtime/package-lock.json");
const SERVE: &str = include_str!("runtime/serve.cjs");
/// The behaviour of the runtime as of a day, which must not be after the day of its release.
const COMPATIBILITY_DATE: &str = "2026-04-01";
/// How long one attempt to reach it may take.
const ATTEMPT: Duration = Duration::from_secs(20);

/// What a Worker is made of and bound to.
#[derive(Clone, Debug, Default)]
pub struct WorkerSpec {
    /// The folder that [`build`] returned.
    pub folder: PathBuf,
    /// Namespaces of Durable Objects: the binding, the class, and whether its storage is SQLite.
    pub durable_objects: Vec<(&'static str, &'static str, bool)>,
    /// Whether the objects run in another instance of the Worker than the requests from outside, as
    /// they mostly do at Cloudflare.
    pub objects_apart: bool,
    /// Compatibility flags.
    pub flags: Vec<&'static str>,
    /// Bindings of D1 databases.
    pub d1: Vec<&'static str>,
    /// Bindings of namespaces of Workers KV.
    pub kv: Vec<&'static str>,
    /// Variables: mostly texts.
    pub vars: Vec<(&'static str, Value)>,
}

/// A Worker that runs. Its storage is kept by `restart`, and removed when it is dropped.
///
/// If it is dropped because a test fails, it prints its log, with the logs and exceptions of the
/// Worker.
#[derive(Debug)]
pub struct Workerd(Server);

impl Workerd {
    /// Starts a Worker; returns once it answers.
    ///
    /// # Errors
    /// When the runtime cannot be installed, or the Worker does not start.
    pub fn start(spec: &WorkerSpec) -> Result<Self> {
        let options = options(spec)?;
        Server::start(Runtime { packages: packages()?, options }).map(Self)
    }

    /// Its address, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Status and body of the response to a GET request.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        let request = format!("GET {path}");
        let (status, body) = Connection::to(self.addr(), ATTEMPT)?.send(&request, &[], b"")?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

impl Deref for Workerd {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Drop for Workerd {
    #[expect(clippy::print_stderr, reason = "a failing test shows why")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of the Worker:\n{}", self.log());
        }
    }
}

/// Downloads and builds what builds and runs a Worker, if it is not there.
pub(super) fn prepare() -> Result<()> {
    build::prepare()?;
    packages().map(drop)
}

fn packages() -> Result<NodeJs> {
    NodeJs::with(NAME, PACKAGE, LOCK)
}

/// The name of the instance that gets requests from outside, and of the one of objects apart.
const OUTER: &str = "outer";
const OBJECTS: &str = "objects";

/// The options of miniflare that depend on the Worker.
fn options(spec: &WorkerSpec) -> Result<Map<String, Value>> {
    let mut workers = Vec::new();
    if spec.objects_apart {
        workers.push(instance(spec, OUTER, OBJECTS)?);
        workers.push(instance(spec, OBJECTS, OBJECTS)?);
    } else {
        workers.push(instance(spec, OUTER, OUTER)?);
    }
    let options = json!({
        "workers": workers,
        // A request to /cdn-cgi/handler/scheduled runs what a cron trigger does.
        "unsafeTriggerHandlers": true,
        // Otherwise it is fetched from Cloudflare.
        "cf": false,
    });
    Ok(options.as_object().cloned().unwrap_or_default())
}

/// An instance of the Worker whose objects are in the instance `home`.
fn instance(spec: &WorkerSpec, name: &str, home: &str) -> Result<Value> {
    let object = |(binding, class, sqlite): &(&str, &str, bool)| {
        let object = json!({ "className": class, "useSQLite": sqlite, "scriptName": home });
        ((*binding).to_owned(), object)
    };
    let objects: Map<String, Value> = spec.durable_objects.iter().map(object).collect();
    let vars = spec.vars.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let vars: Map<String, Value> = vars.collect();
    Ok(json!({
        "name": name,
        "modules": modules(&spec.folder)?,
        "modulesRoot": spec.folder,
        "compatibilityDate": COMPATIBILITY_DATE,
        "compatibilityFlags": spec.flags,
        "durableObjects": objects,
        "d1Databases": spec.d1,
        "kvNamespaces": spec.kv,
        "bindings": vars,
    }))
}

/// Every file of the Worker, the entry first.
fn modules(folder: &Path) -> Result<Vec<Value>> {
    let mut modules = vec![module(&folder.join("shim.js"), "ESModule")];
    modules.extend(modules_below(folder)?);
    Ok(modules)
}

fn modules_below(folder: &Path) -> Result<Vec<Value>> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(folder).at(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            _ if path.is_dir() => modules.extend(modules_below(&path)?),
            Some("js") if !path.ends_with("shim.js") => modules.push(module(&path, "ESModule")),
            Some("wasm") => modules.push(module(&path, "CompiledWasm")),
            _ => {}
        }
    }
    Ok(modules)
}

fn module(path: &Path, kind: &str) -> Value {
    json!({ "type": kind, "path": path })
}

/// How the runtime is started.
#[derive(Debug)]
struct Runtime {
    packages: NodeJs,
    options: Map<String, Value>,
}

impl Runtime {
    /// A script that runs workerd so that the kernel ends it with miniflare.
    fn write_workerd(&self, resources: &Resources) -> Result<PathBuf> {
        let platform = if cfg!(target_arch = "aarch64") { "arm64" } else { "64" };
        let workerd = format!("node_modules/@cloudflare/workerd-linux-{platform}/bin/workerd");
        let workerd = self.packages.folder().join(workerd);
        let setpriv = program("setpriv", "util-linux")?;
        let (setpriv, workerd) = (setpriv.display(), workerd.display());
        let script = format!("#!/bin/sh\nexec '{setpriv}' --pdeathsig KILL '{workerd}' \"$@\"\n");
        let path = resources.write("workerd", &script)?;
        make_executable(&path)?;
        Ok(path)
    }
}

impl ServerSpec for Runtime {
    fn name(&self) -> &'static str {
        "workerd"
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        let mut options = self.options.clone();
        options.insert("host".to_owned(), "127.0.0.1".into());
        options.insert("port".to_owned(), resources.port().into());
        let state = resources.path("state").to_string_lossy().into_owned();
        options.insert("defaultPersistRoot".to_owned(), state.into());
        resources.write("options.json", &Value::Object(options).to_string())?;
        resources.write("serve.cjs", SERVE)?;
        self.write_workerd(resources).map(drop)
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let node = self.packages.command()?;
        let mut command = server_command(node.get_program())?;
        command.envs(node.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.arg(resources.path("serve.cjs")).arg(resources.path("options.json"));
        command.env("MINIFLARE_WORKERD_PATH", resources.path("workerd"));
        // A killed process leaves its temporary files, which must be removed with the folder.
        command.env("TMPDIR", resources.folder());
        Ok(command)
    }

    /// A request to the Worker, which may answer with any status.
    fn probe(&self, resources: &Resources) -> Result<()> {
        Connection::to(resources.addr(), ATTEMPT)?.send("GET /", &[], b"")?;
        Ok(())
    }
}

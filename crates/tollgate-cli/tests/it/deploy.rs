//! The files below `deploy/`, validated by the programs that read them. Each program must also
//! refuse a file with an error.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tollgate_test_servers::{Folder, Python, program};

use crate::{TOLLGATE, file, run};

const LINT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/deploy/lint.py");

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(deploy(path)).unwrap()
}

fn checked(command: &mut Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let output =
        [stdout, stderr].map(|output| String::from_utf8_lossy(&output).into_owned()).concat();
    (status.success(), output)
}

/// Lints a file, and the same file with an error in it.
fn refuses_only_what_is_wrong(
    check: impl Fn(&Path) -> (bool, String),
    path: &str,
    (right, wrong): (&str, &str),
) {
    let (fine, output) = check(&deploy(path));
    assert!(fine, "{path}: {output}");
    let broken = text(path).replacen(right, wrong, 1);
    assert_ne!(broken, text(path));
    // Some programs choose the format by the name of the file.
    let broken = file(Path::new(path).file_name().unwrap().to_str().unwrap(), &broken);
    let (fine, _) = check(&broken);
    assert!(!fine, "{path} with {wrong:?} is accepted");
}

#[test]
fn docker_and_kubernetes_accept_their_files() {
    let python = Python::with("deploy", include_str!("../deploy/requirements.txt")).unwrap();
    let lint = |kind: &'static str| {
        let python = &python;
        move |path: &Path| checked(python.command().unwrap().args([LINT, kind]).arg(path))
    };
    let dockerfile = ("ENTRYPOINT [", "MAINTAINER me\nENTRYPOINT [");
    refuses_only_what_is_wrong(lint("dockerfile"), "docker/Dockerfile", dockerfile);
    let compose = ("depends_on:", "depend_on:");
    refuses_only_what_is_wrong(lint("compose"), "docker/compose.yaml", compose);
    let kubernetes = ("replicas: 3", "replica: 3");
    refuses_only_what_is_wrong(lint("kubernetes"), "kubernetes/tollgate.yaml", kubernetes);
    // A probe that follows the store would take all pods out of the service in an outage.
    let probes = text("kubernetes/tollgate.yaml");
    let probes: Vec<&str> = probes.lines().filter(|line| line.contains("Probe: ")).collect();
    assert!(probes.len() == 2 && probes.iter().all(|line| line.contains("/healthz")), "{probes:?}");
}

/// What Docker would copy into the image is a workspace that cargo reads, and nothing more: no
/// build output, and no file that makes rustup download another toolchain than the one of the
/// image.
#[test]
fn the_image_is_built_from_the_files_that_it_copies() {
    let dockerfile = text("docker/Dockerfile");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rust = dockerfile.lines().find_map(|line| line.strip_prefix("FROM rust:")).unwrap();
    let version = rust.split(['-', ' ']).next().unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("rust-version = \"{version}\"\n")), "{version} is too old");

    let copies = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
    let copies = copies.filter(|words| !words.starts_with("--from"));
    let sources: Vec<&str> = copies
        .flat_map(|words| {
            let words: Vec<&str> = words.split(' ').collect();
            words[..words.len() - 1].to_vec()
        })
        .collect();
    assert!(sources.contains(&"crates") && !sources.contains(&"."), "{sources:?}");
    // Docker gets the files that are copied, and no others.
    let ignored = fs::read_to_string(root.join(".dockerignore")).unwrap();
    let mut kept: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let mut copied = sources.clone();
    kept.sort_unstable();
    copied.sort_unstable();
    assert_eq!(kept, copied);
    assert!(ignored.lines().any(|line| line == "*") && ignored.ends_with("**/target\n"));

    let context = Folder::new("image").unwrap();
    let mut copy = Command::new("sh");
    let pipe = "tar -ch --exclude=target -- \"$@\" | tar -xC \"$0\"";
    copy.args(["-c", pipe]).arg(context.path()).args(sources).current_dir(&root);
    let (fine, output) = checked(&mut copy);
    assert!(fine, "{output}");
    assert!(!context.path().join("rust-toolchain.toml").exists());
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args(["tree", "--locked", "--offline", "-p", "tollgate-cli", "-e", "normal,build"]);
    let (fine, output) = checked(tree.current_dir(context.path()));
    assert!(fine && output.contains("tollgate-server v"), "{output}");
}

#[test]
fn systemd_accepts_the_unit() {
    let analyze = program("systemd-analyze", "systemd").unwrap();
    let folder = Folder::new("deploy").unwrap();
    let verify = |text: &str| {
        // It checks that the program exists, which is at another path here.
        let unit = folder.path().join("tollgate.service");
        fs::write(&unit, text.replace("/usr/local/bin/tollgate", TOLLGATE)).unwrap();
        checked(Command::new(&analyze).args(["verify", "--man=no"]).arg(unit))
    };
    let unit = text("systemd/tollgate.service");
    let (fine, output) = verify(&unit);
    assert!(fine && !output.contains("tollgate.service:"), "{output}");
    let (fine, output) = verify(&unit.replace("ProtectHome", "ProtectHouse"));
    assert!(!fine || output.contains("ProtectHouse"), "{output}");
}

#[test]
fn nginx_accepts_the_site() {
    let (nginx, folder) = (program("nginx", "nginx").unwrap(), Folder::new("deploy").unwrap());
    let check = |site: &Path| {
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {kind};\n"))
            .collect();
        let site = site.display();
        let whole = format!(
            "pid nginx.pid;\nerror_log stderr;\nevents {{}}\n\
             http {{\naccess_log off;\n{paths}include {site};\n}}\n"
        );
        fs::write(folder.path().join("nginx.conf"), whole).unwrap();
        let mut command = Command::new(&nginx);
        command.arg("-t").arg("-p").arg(folder.path());
        checked(command.args(["-e", "stderr", "-c", "nginx.conf"]))
    };
    let wrong = ("auth_request /", "auth_requests /");
    refuses_only_what_is_wrong(check, "nginx/tollgate.conf", wrong);
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_when_they_should() {
    let promtool = program("promtool", "prometheus").unwrap();
    let check = |path: &Path| checked(Command::new(&promtool).args(["check", "rules"]).arg(path));
    let wrong = ("sum by", "sum buy");
    refuses_only_what_is_wrong(check, "prometheus/alerts.yaml", wrong);
    let folder = Folder::new("deploy").unwrap();
    let test = |rules: &str| {
        fs::write(folder.path().join("alerts.yaml"), rules).unwrap();
        let tests = folder.path().join("alerts_test.yaml");
        fs::copy(deploy("prometheus/alerts_test.yaml"), &tests).unwrap();
        checked(Command::new(&promtool).args(["test", "rules"]).arg(tests))
    };
    let rules = text("prometheus/alerts.yaml");
    let (fine, output) = test(&rules);
    assert!(fine, "{output}");
    for (right, wrong) in
        [("degraded!=\"no\"", "degraded=\"no\""), ("> 0.01", "> 0.1"), ("> 0.05", "> 5")]
    {
        let (fine, output) = test(&rules.replace(right, wrong));
        assert!(!fine, "{wrong}: {output}");
    }
}

#[test]
fn the_server_reads_the_settings_of_the_files() {
    let config = deploy("config/tollgate.yaml");
    let (fine, _, error) = run(&["lint", config.to_str().unwrap()]);
    assert!(fine, "{error}");
    // The variables of the Dockerfile and of the Compose file, for both backends.
    for (backend, scheme) in [("redis", "redis://"), ("postgres", "postgres://")] {
        let mut show = Command::new(TOLLGATE);
        show.args(["config", "show"]).env_clear();
        let dockerfile = text("docker/Dockerfile");
        let line = dockerfile.lines().find_map(|line| line.strip_prefix("ENV ")).unwrap();
        for pair in line.split(' ') {
            let (name, value) = pair.split_once('=').unwrap();
            show.env(name, value);
        }
        let compose = text("docker/compose.yaml");
        let (_, block) = compose.split_once("environment:\n").unwrap();
        for line in block.lines().take_while(|line| line.starts_with("      ")) {
            let (name, value) = line.trim().split_once(": ").unwrap();
            let value = value.trim_matches('"').replace("${BACKEND:-redis}", backend);
            show.env(name, value);
        }
        let (fine, output) = checked(&mut show);
        assert!(fine && output.contains(scheme) && output.contains("0.0.0.0:8080"), "{output}");
    }
}

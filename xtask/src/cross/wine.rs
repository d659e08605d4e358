//! Wine, which runs programs for Windows here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, sh};

/// A folder with the files of an installation of Windows, and one with a library that Wine may lack.
pub(super) struct Wine {
    prefix: PathBuf,
    libraries: PathBuf,
}

impl Wine {
    /// Creates the folders if needed.
    pub(super) fn prepare(target: &Path, compiler: &str) -> Result<Self, Error> {
        let folder = target.join("wine");
        let wine = Self { prefix: folder.join("prefix"), libraries: folder.join("libraries") };
        fs::create_dir_all(&wine.libraries)?;
        let mut library = Command::new(compiler);
        library.args(["-shared", "-O1", "-o"]).arg(wine.libraries.join("bcryptprimitives.dll"));
        library.arg(sh::root().join("xtask/src/cross/bcryptprimitives.c")).arg("-ladvapi32");
        sh::output(&mut library)?;
        fs::create_dir_all(&wine.prefix)?;
        wine.start_server()?;
        wine.boot(&folder.join("boot.log"))?;
        Ok(wine)
    }

    /// Starts Wine's server, which runs until this value is dropped. A server that Wine starts ends soon after a program, and
    /// the next program may still try to connect to it.
    fn start_server(&self) -> Result<(), Error> {
        self.stop_server();
        let mut server = self.server();
        sh::run(server.arg("--persistent").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Creates the files of Windows if needed, and starts the services, which run as long as the server.
    fn boot(&self, log: &Path) -> Result<(), Error> {
        let mut boot = Command::new("timeout");
        boot.args(["300", "/usr/bin/wine", "wineboot", "--init"]);
        self.set_variables(&mut boot);
        // The services inherit the output. If it were a pipe, reading it would end only when they end.
        let output = fs::File::create(log)?;
        boot.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        sh::run(&mut boot).map_err(|error| {
            let said = fs::read_to_string(log).unwrap_or_default();
            format!("cannot start Wine (124 means that it took longer than 300 s): {error}\n{said}").into()
        })
    }

    /// Stops the server, if one runs, and waits for its end.
    fn stop_server(&self) {
        for action in ["--kill", "--wait"] {
            // The command fails if no server runs.
            let _ = self.server().arg(action).stderr(Stdio::null()).status();
        }
    }

    fn server(&self) -> Command {
        let mut server = Command::new("/usr/bin/wineserver");
        self.set_variables(&mut server);
        server
    }

    /// Sets the variables that Wine reads.
    pub(super) fn set_variables(&self, command: &mut Command) {
        command.env("WINEPREFIX", &self.prefix).env("WINEPATH", windows_path(&self.libraries)).env("WINEDEBUG", "-all");
        // Wine reads the names of files in the encoding of the locale.
        command.env("LC_ALL", "C.UTF-8");
        // No window asks whether to install .NET and a browser.
        command.env("WINEDLLOVERRIDES", "mscoree=;mshtml=").env_remove("DISPLAY");
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        self.stop_server();
    }
}

/// The path under which programs for Windows find a file of this computer.
pub(super) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

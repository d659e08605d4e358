//! Wine, which runs Windows programs on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, sh};

/// The folder of Wine's Windows installation, and a folder with a library that Wine may lack.
pub(super) struct Wine {
    prefix: PathBuf,
    libraries: PathBuf,
}

impl Wine {
    /// Creates the folders if needed, builds the library, and starts Wine's server and services.
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

    /// Starts Wine's server, which runs until this value is dropped. A server that Wine itself starts ends soon after a
    /// program, while the next program may still try to connect to it.
    fn start_server(&self) -> Result<(), Error> {
        self.stop_server();
        let mut server = self.server();
        sh::run(server.arg("--persistent").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Creates the Windows installation if needed, and starts its services, which run as long as the server.
    fn boot(&self, log: &Path) -> Result<(), Error> {
        let mut boot = Command::new("timeout");
        boot.args(["300", "/usr/bin/wine", "wineboot", "--init"]);
        self.set_variables(&mut boot);
        // Write the output to a file, because the services inherit it. A read from a pipe would end only when the
        // services end.
        let output = fs::File::create(log)?;
        boot.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        sh::run(&mut boot).map_err(|error| {
            let said = fs::read_to_string(log).unwrap_or_default();
            format!("cannot start Wine (124 means that it took longer than 300 s): {error}\n{said}").into()
        })
    }

    /// Stops the server, if it runs, and waits for its end.
    fn stop_server(&self) {
        for action in ["--kill", "--wait"] {
            // Ignore the error, because the command fails if no server runs.
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
        // Wine decodes file names in the encoding of the locale.
        command.env("LC_ALL", "C.UTF-8");
        // Prevent dialogs that offer to install .NET and a browser engine.
        command.env("WINEDLLOVERRIDES", "mscoree=;mshtml=").env_remove("DISPLAY");
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        self.stop_server();
    }
}

/// Returns the path under which Windows programs find a file of this computer.
pub(super) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

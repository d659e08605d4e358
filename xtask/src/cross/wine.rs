//! Wine, which runs programs for Windows here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        let complete = folder.join(".complete");
        if !complete.is_file() {
            let mut boot = Command::new("/usr/bin/wine");
            wine.set_variables(&mut boot);
            sh::output(boot.args(["wineboot", "--init"]))?;
            fs::write(complete, "")?;
        }
        Ok(wine)
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

/// The path under which programs for Windows find a file of this computer.
pub(super) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

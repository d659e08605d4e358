//! Plans, performs and removes installations.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::download::Downloader;
use super::error::InstallError;
use super::http::Http;
use super::index::Index;
use super::known::find;
use super::links;
use super::lock::lock;
use super::plan::{InstallPlan, PlannedPackage};
use super::plugin;
use super::request::InstallRequest;
use super::resolve::Resolver;
use super::settings::Settings;
use super::unpack::{metadata_of, unpack};
use super::watch::{Event, Watch};
use crate::discovery::{InstallRecord, InstalledPackage, MissingDependency, Refusal, file_name, files, normalize};

/// The file in the folder of plugins that a process locks while it changes the folder.
const LOCK: &str = ".lock";
/// The beginnings of the names of folders that are being filled or removed, and of those that are being replaced.
const NEW: &str = ".new-";
const OLD: &str = ".old-";

/// Installs and removes plugins.
#[derive(Debug)]
pub struct Installer {
    settings: Settings,
    downloader: Downloader,
}

/// An installed plugin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Installed {
    /// The description in the plugin's folder.
    pub record: InstallRecord,
    /// The plugin's folder.
    pub folder: PathBuf,
    /// Libraries that the plugin needs, and that neither its packages nor the system contain. Until they are installed,
    /// discovery refuses the plugin.
    pub missing: Vec<MissingDependency>,
    /// Whether exactly these packages were installed before, so that nothing changed.
    pub unchanged: bool,
}

impl Installed {
    /// Returns the path of the plugin's library.
    pub fn library(&self) -> PathBuf {
        self.folder.join(&self.record.library)
    }
}

impl Installer {
    /// Creates an installer.
    pub fn new(settings: Settings) -> Self {
        let cache = Cache { folder: settings.cache.clone() };
        Self { settings, downloader: Downloader::new(Http::new(), cache) }
    }

    /// Chooses the packages for a request. Reads indexes and metadata. Downloads a wheel only if its metadata cannot be
    /// read otherwise.
    ///
    /// # Errors
    ///
    /// Returns an error if the address of an index is invalid, if an index cannot be read, or if it has no suitable
    /// package.
    pub fn plan(
        &self,
        request: &InstallRequest,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<InstallPlan, InstallError> {
        let mut indexes = self.settings.extra.iter().map(|url| Index::new(url)).collect::<Result<Vec<_>, _>>()?;
        if let Some(known) = request.known.filter(|_| self.settings.vendors)
            && let Some(url) = known.index
        {
            indexes.push(Index::vendor(url, known.package)?);
        }
        indexes.push(Index::new(&self.settings.default)?);
        Resolver::new(&self.downloader, &self.settings.platform, indexes).resolve(request, watch)
    }

    /// Downloads and installs the packages of a plan. Replaces an installed plugin of the same name.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be downloaded, verified or unpacked, or if the package does not contain a
    /// plugin for this machine. In this case, the folder of plugins is unchanged.
    pub fn install(&self, plan: &InstallPlan, watch: &mut dyn FnMut(Event<'_>)) -> Result<Installed, InstallError> {
        let root = &self.settings.folder;
        let name = plan.request.name();
        let _lock = self.lock(watch)?;
        let folder = root.join(name);
        if let Some(before) = self.existing(&folder)?
            && is_same(&before, plan)
        {
            let missing = self.settings.discovery.missing_dependencies(&folder.join(&before.library));
            return Ok(Installed { record: before, folder, missing, unchanged: true });
        }
        let new = Unfinished(root.join(format!("{NEW}{name}")));
        fs::create_dir(&new.0).map_err(InstallError::io(&new.0))?;
        let (record, missing) = self.fill(&new.0, plan, watch)?;
        let old = root.join(format!("{OLD}{name}"));
        if folder.exists() {
            fs::rename(&folder, &old).map_err(InstallError::io(&folder))?;
        }
        if let Err(error) = fs::rename(&new.0, &folder) {
            // The earlier version is better than none.
            let _ = fs::rename(&old, &folder);
            return Err(InstallError::Io { path: folder, error });
        }
        // The next installation removes what remains.
        let _ = fs::remove_dir_all(&old);
        Ok(Installed { record, folder, missing, unchanged: false })
    }

    /// Downloads the wheels and unpacks them into a new folder, checks the plugin and writes the record. The plugin's
    /// package comes first, so that a package that is not a plugin fails before its libraries are downloaded.
    fn fill(
        &self,
        folder: &Path,
        plan: &InstallPlan,
        watch: Watch<'_>,
    ) -> Result<(InstallRecord, Vec<MissingDependency>), InstallError> {
        let mut all = Vec::new();
        let mut found = None;
        for (index, package) in plan.packages.iter().enumerate() {
            let wheel = &self.downloader.fetch(&package.file, watch)?;
            watch(Event::Unpack { file: package.file() });
            let file = File::open(wheel).map_err(InstallError::io(wheel))?;
            if metadata_of(file, package.file())? != package.metadata {
                let message = "its metadata differs from that in the index".to_owned();
                return Err(InstallError::BadWheel { file: package.file().to_owned(), message });
            }
            let files = unpack(wheel, package.file(), folder)?;
            if index == 0 {
                let shown = format!("{} {}", package.name(), package.version());
                found = Some(plugin::find(folder, &files, &shown, self.settings.platform.target)?);
            }
            all.extend(files);
        }
        let (Some(found), Some(main)) = (found, plan.packages.first()) else {
            return Err(InstallError::NotAPlugin { package: plan.request.name().to_owned(), libraries: 0 });
        };
        let missing = links::add(&self.settings.discovery, folder, &found.library, &all)?;
        let known = plan.request.known.map(|known| known.aliases).unwrap_or_default();
        let mut aliases: Vec<String> = known.iter().map(|&alias| alias.to_owned()).collect();
        aliases.extend(found.names.into_iter().filter(|name| !known.contains(&name.as_str())));
        let inside = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_owned();
        let record = InstallRecord {
            name: plan.request.name().to_owned(),
            aliases,
            package: main.name().to_owned(),
            version: main.version(),
            library: inside(&found.library),
            manifest: found.manifest.as_deref().map(inside),
            packages: plan.packages.iter().map(as_installed).collect(),
        };
        let path = folder.join(InstallRecord::FILE_NAME);
        let mut file = File::create_new(&path).map_err(InstallError::io(&path))?;
        let written = file.write_all(record.to_json().as_bytes()).and_then(|()| file.sync_all());
        written.map_err(InstallError::io(&path))?;
        Ok((record, missing))
    }

    /// Returns the installed plugins, in the order of their folders' names. Ignores folders without a valid record.
    pub fn installed(&self) -> Vec<InstallRecord> {
        self.folders().into_iter().map(|(_, record)| record).collect()
    }

    /// Returns the folders of the installed plugins, with their records.
    fn folders(&self) -> Vec<(PathBuf, InstallRecord)> {
        let finished = files(&self.settings.folder).into_iter().filter(|folder| !file_name(folder).starts_with('.'));
        finished.filter_map(|folder| InstallRecord::read(&folder).ok().map(|read| (folder, read))).collect()
    }

    /// Removes an installed plugin with its libraries. Returns its description. Downloads stay in the cache.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::NotInstalled`] if no plugin of this name is installed, or [`InstallError::Io`] if its
    /// folder cannot be removed.
    pub fn uninstall(&self, name: &str, watch: &mut dyn FnMut(Event<'_>)) -> Result<InstallRecord, InstallError> {
        let root = &self.settings.folder;
        // Do not create the folder if it does not exist.
        let _lock = if root.is_dir() { Some(self.lock(watch)?) } else { None };
        let wanted = normalize(name);
        let wanted = find(&wanted).map_or(wanted, |known| known.name.to_owned());
        let Some((folder, record)) = self.folders().into_iter().find(|(_, record)| record.name == wanted) else {
            return Err(InstallError::NotInstalled {
                name: name.to_owned(),
                folder: root.clone(),
                installed: self.installed().into_iter().map(|record| record.name).collect(),
            });
        };
        // The next installation removes a folder of this name, so that a part of a plugin never remains.
        let removed = root.join(format!("{NEW}{wanted}"));
        fs::rename(&folder, &removed).map_err(InstallError::io(&folder))?;
        fs::remove_dir_all(&removed).map_err(InstallError::io(&removed))?;
        Ok(record)
    }

    /// Removes the downloads of a plan from the cache.
    pub fn discard_downloads(&self, plan: &InstallPlan) {
        for sha256 in plan.packages.iter().filter_map(PlannedPackage::sha256) {
            self.downloader.discard(sha256);
        }
    }

    /// Locks the folder of plugins, and removes what interrupted installations left. If one was interrupted after it
    /// had moved the earlier version away, moves this version back.
    fn lock(&self, watch: Watch<'_>) -> Result<File, InstallError> {
        let root = &self.settings.folder;
        fs::create_dir_all(root).map_err(InstallError::io(root))?;
        let path = root.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(InstallError::io(&path))?;
        lock(&file, &path, watch)?;
        for entry in fs::read_dir(root).map_err(InstallError::io(root))?.flatten() {
            let path = entry.path();
            let name = file_name(&path);
            let back = name.strip_prefix(OLD).map(|plugin| root.join(plugin)).filter(|back| !back.exists());
            if let Some(back) = back.filter(|_| InstallRecord::read(&path).is_ok()) {
                fs::rename(&path, back).map_err(InstallError::io(&path))?;
            } else if name.starts_with(NEW) || name.starts_with(OLD) {
                fs::remove_dir_all(&path).map_err(InstallError::io(&path))?;
            }
        }
        Ok(file)
    }

    /// Returns the record of an earlier installation, if the folder exists. Returns `None` if the record is damaged, so
    /// that the plugin can be installed again.
    fn existing(&self, folder: &Path) -> Result<Option<InstallRecord>, InstallError> {
        match fs::symlink_metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(InstallError::io(folder)(error)),
            Ok(_) => match InstallRecord::read(folder) {
                Ok(record) => Ok(Some(record)),
                Err(Refusal::MalformedManifest { .. }) => Ok(None),
                Err(_) => Err(InstallError::Foreign { path: folder.to_owned() }),
            },
        }
    }
}

/// A folder that is removed unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn as_installed(package: &PlannedPackage) -> InstalledPackage {
    InstalledPackage {
        name: package.name().to_owned(),
        version: package.version(),
        file: package.file().to_owned(),
        sha256: package.sha256().unwrap_or_default().to_owned(),
        url: package.url().to_owned(),
    }
}

/// Returns whether an installation has exactly the files of a plan.
fn is_same(before: &InstallRecord, plan: &InstallPlan) -> bool {
    let hashes = before.packages.iter().map(|package| Some(package.sha256.as_str()));
    before.name == plan.request.name() && hashes.eq(plan.packages.iter().map(PlannedPackage::sha256))
}

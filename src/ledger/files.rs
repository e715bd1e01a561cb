//! Files of the ledger: mode 0600 in folders of mode 0700, and no symlink followed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::{LedgerError, Result};

/// Makes sure that `path` is a plain file that only we may read.
pub(super) fn private_file(path: &Path) -> Result<()> {
    let fault = |error: io::Error| LedgerError::File(path.to_owned(), error.to_string());
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_symlink() => {
            Err(LedgerError::File(path.to_owned(), "a symlink is not followed".to_owned()))
        }
        Ok(meta) if !meta.is_file() => Err(LedgerError::File(path.to_owned(), "this is no file".to_owned())),
        Ok(meta) => {
            if meta.permissions().mode() & 0o077 != 0 {
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(fault)?;
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
                && !folder.exists()
            {
                private_folder(folder)?;
            }
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(_) => Ok(()),
                // Another process of ours was quicker.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(fault(error)),
            }
        }
        Err(error) => Err(fault(error)),
    }
}

/// Makes a folder that only we may enter, and those above it that are missing.
pub(super) fn private_folder(path: &Path) -> Result<()> {
    let fault = |what: String| LedgerError::File(path.to_owned(), what);
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_symlink() => Err(fault("a symlink is not followed".to_owned())),
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(fault("this is no folder".to_owned())),
        Err(_) => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| fault(error.to_string())),
    }
}

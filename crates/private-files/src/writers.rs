//! Decides whether users other than the owner may write to a folder.

use std::os::fd::AsFd;

use rustix::fs::Stat;

/// Returns whether users other than this user and root may write to an open folder that belongs to one of these two.
///
/// Many Linux systems give each user a group of their own and make new folders writable for the group. Such a group
/// does not count as another user.
pub(crate) fn others_can_write(folder: impl AsFd, found: &Stat) -> bool {
    let mode = mode(found);
    mode & 0o002 != 0 || (mode & 0o020 != 0 && !(is_own_group(found.st_gid) && has_no_list(folder)))
}

/// Returns the permissions of a file, with the sticky bit.
pub(crate) fn mode(found: &Stat) -> u32 {
    // The type of `st_mode` has 16 bits on some systems.
    #[allow(clippy::useless_conversion, reason = "needed where the type has 16 bits")]
    let mode = u32::from(found.st_mode);
    mode & 0o7777
}

/// Returns whether a folder has no access control list. With a list, the rights of the group in the mode are the
/// maximum of those of all users and groups in the list.
#[cfg(target_os = "linux")]
fn has_no_list(folder: impl AsFd) -> bool {
    use rustix::io::Errno;
    // The folder may be open without the right to read it, which `fgetxattr` does not support.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder.as_fd()));
    let length = rustix::fs::getxattr_query(path, "system.posix_acl_access");
    matches!(length, Err(Errno::NODATA | Errno::NOTSUP))
}

/// Returns `false`, because this system does not give each user a group.
#[cfg(not(target_os = "linux"))]
fn has_no_list(_: impl AsFd) -> bool {
    false
}

/// Returns whether this user is the only member of a group.
fn is_own_group(group: u32) -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    is_group_of(&read("/etc/passwd"), &read("/etc/group"), group, rustix::process::geteuid().as_raw())
}

/// Returns whether a user is the only member of a group that has the user's name and is the user's main group. `users`
/// and `groups` have the formats of `/etc/passwd` and `/etc/group`. Returns `false` if these texts do not contain all
/// users, or not the user or the group.
fn is_group_of(users: &str, groups: &str, group: u32, user: u32) -> bool {
    let fields = |line: &'_ str| -> Option<(String, u32, String)> {
        let mut parts = line.split(':');
        let (name, _, id) = (parts.next()?, parts.next()?, parts.next()?.parse().ok()?);
        Some((name.to_owned(), id, parts.next()?.to_owned()))
    };
    let (Some(users), Some(groups)) =
        (users.lines().map(fields).collect::<Option<Vec<_>>>(), groups.lines().map(fields).collect::<Option<Vec<_>>>())
    else {
        return false;
    };
    let is_main = |main: &str| main.parse() == Ok(group);
    let Some((name, ..)) = users.iter().find(|(_, id, main)| *id == user && is_main(main)) else { return false };
    let mut named = groups.iter().filter(|(_, id, _)| *id == group).peekable();
    named.peek().is_some()
        && named.all(|(own, _, members)| own == name && (members.is_empty() || members == name))
        && users.iter().all(|(_, id, main)| *id == user || !is_main(main))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000:Alice:/home/alice:/bin/sh\n\
                         bob:x:1001:1001::/home/bob:/bin/sh\ncarol:x:1002:100::/home/carol:/bin/sh\n";
    const GROUPS: &str = "root:x:0:\nusers:x:100:\nalice:x:1000:\nbob:x:1001:bob\ncarol:x:1002:\nteam:x:2000:alice\n";

    #[test]
    fn group_of_one_user() {
        for (group, user, is_own) in [
            (1000, 1000, true),
            (1001, 1001, true),
            (0, 0, true),
            (1001, 1000, false),
            (2000, 1000, false),
            (100, 1002, false),
            (1002, 1002, false),
            (3000, 3000, false),
        ] {
            assert_eq!(is_group_of(USERS, GROUPS, group, user), is_own, "{group} {user}");
        }
    }

    #[test]
    fn group_with_other_members() {
        let is_own = |users: &str, groups: &str| is_group_of(users, groups, 1000, 1000);
        let group = |line: &str| GROUPS.replace("alice:x:1000:", line);
        assert!(is_own(USERS, &group("alice:x:1000:alice")));
        for line in ["alice:x:1000:bob", "alice:x:1000:alice,bob", "family:x:1000:", "alice:x:1000:\nbackup:x:1000:bob"]
        {
            assert!(!is_own(USERS, &group(line)), "{line}");
        }
        let others_main_group = USERS.replace("1001:1001", "1001:1000");
        assert!(!is_own(&others_main_group, GROUPS));
    }

    /// A line `+` includes users from a directory service.
    #[test]
    fn unknown_users() {
        for more in ["+\n", "+::::::\n", "x\n", "x:x:x:x\n"] {
            assert!(!is_group_of(&format!("{USERS}{more}"), GROUPS, 1000, 1000), "{more}");
            assert!(!is_group_of(USERS, &format!("{GROUPS}{more}"), 1000, 1000), "{more}");
        }
        assert!(!is_group_of("", "", 1000, 1000));
    }
}

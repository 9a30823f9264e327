# Functions for bash scripts, on Debian and its descendants.

# Whether the Debian package $1 is installed.
has_package() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Installs those of the named Debian packages that are missing. Does not use the network if none is. If it may not install them, it
# prints the command to type and returns 1. Does nothing on a system without dpkg.
install_packages() {
  command -v dpkg-query >/dev/null || return 0

  local package missing=()
  for package in "$@"; do
    has_package "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    as_root=(sudo --non-interactive)
    if ! "${as_root[@]}" true 2>/dev/null; then
      printf 'Missing packages. Please type this, then start again:\n  sudo apt-get install %s\n' "${missing[*]}" >&2
      return 1
    fi
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get update && apt-get install --yes --no-install-recommends "$@"' sh "${missing[@]}"
}

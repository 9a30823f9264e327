# To be sourced by bash scripts: install_packages, for Debian and its descendants.

# Installs those of the named Debian packages that are missing; touches no network when none is. Where it may not install, prints the
# line to type and returns 1. On a system without dpkg it leaves finding what is needed to whoever builds.
install_packages() {
  command -v dpkg-query >/dev/null || return 0

  local package missing=()
  for package in "$@"; do
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
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

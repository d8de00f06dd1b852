#!/usr/bin/env bash
# Install what some tests need and only Debian has: Chromium for the page, PostgreSQL for the store.
# Tests that need a missing program are skipped, so this script never fails.
set -u

missing=()
command -v chromium > /dev/null || missing+=(chromium)
compgen -G "/usr/lib/postgresql/*/bin/initdb" > /dev/null || missing+=(postgresql)
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get > /dev/null; then
    echo "debian.sh: ${missing[*]} not found, and there is no apt-get to install them" >&2
    exit 0
fi
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq || true
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null ||
    echo "debian.sh: could not install ${missing[*]}; the tests that need them are skipped" >&2
exit 0

#!/bin/sh
# Programs that some tests use and pip doesn't bring. Installed where that asks nobody: as root on
# a Debian, which is what a container of CI is. Elsewhere a line says what those tests lack, and
# they are skipped with their reason.
set -u

missing=
command -v promtool >/dev/null || missing="$missing prometheus"
command -v valkey-server >/dev/null || command -v redis-server >/dev/null ||
  missing="$missing redis-server"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing$missing ..."
  export DEBIAN_FRONTEND=noninteractive
  # A package list may be old or absent; without a network both fail, and the tests are skipped.
  # shellcheck disable=SC2086
  { apt-get -qq update && apt-get -qq install --no-install-recommends $missing; } \
    >/dev/null 2>&1 && exit 0
fi
echo "Not installed:$missing. Tests that need it are skipped (Debian: apt install$missing)."

# shellcheck shell=bash
# Virtual environments and what pip puts into them. To be sourced after common.sh.
# shellcheck disable=SC2154  # root is set there

python=${BOV_PYTHON:-python3}
report_venv=$root/build/report_venv

# make_venv FOLDER: nothing to do where it works.
make_venv() {
  "$1/bin/python3" -c '' 2>/dev/null && return
  "$python" -m venv --clear "$1" >"$log" 2>&1 ||
    die "$python cannot make a virtual environment; set BOV_PYTHON to a Python that can (on Debian: with python3-venv)"
}

# pip_install VENV WHAT ARGUMENT...: WHAT names it in messages.
pip_install() {
  local venv=$1 what=$2
  shift 2
  say "installing $what"
  "$venv/bin/python3" -m pip install --disable-pip-version-check --quiet "$@" >"$log" 2>&1 || {
    local reason
    reason=$(grep '^ERROR' "$log" | tail -1)
    # pip reports an unreachable index as a package that does not exist.
    ! grep -q 'connection broken' "$log" || reason="the package index cannot be reached"
    say "pip could not install $what: $reason (all of it: $log)"
    return 1
  }
}

# report_python REQUIREMENTS...: prints the Python that makes reports, after installing into it, on first use, the packages
# of these files. They are many, so only those who make reports get them.
report_python() {
  local log=$root/build/report_setup.log file
  take_lock "$root/build/report_setup.lock" "set-up of reports"
  for file in "$@"; do
    # Named by the content: another list of packages is installed anew.
    local done_file
    done_file=$report_venv/$(sha256sum "$file" | cut -c 1-16).installed
    [[ ! -e $done_file ]] || continue
    make_venv "$report_venv"
    pip_install "$report_venv" "the Python packages of ${file#"$root/"} (first use only)" --requirement "$file" || exit 1
    touch "$done_file"
  done
  release_lock
  echo "$report_venv/bin/python3"
}

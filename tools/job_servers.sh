#!/usr/bin/env bash
# Assembles Beam's job servers for Flink and Spark: Java programs that Beam's Python
# runners start. Their usual form is one large jar (`beam-runners-flink-1.19-job-server`),
# which some Maven repositories do not have. This takes Beam's runner and its
# dependencies as Maven has them, and writes a jar whose manifest lists them.
#
#   tools/job_servers.sh FOLDER
#
# Writes FOLDER/beam-runners-flink-1.19-job-server-2.62.0.jar, FOLDER/beam-runners-spark-3-
# job-server-2.50.0.jar and, in folders next to them, the jars they list: 400 MB. Keeps
# those that exist. Requires `mvn` and `jar` (Java 11 or 17).
set -euo pipefail

: "${1:?usage: tools/job_servers.sh FOLDER}"
folder=$(mkdir -p -- "$1" && cd -- "$1" && pwd)
for program in mvn jar; do
  command -v "$program" >/dev/null || {
    echo "job_servers.sh: there is no \`$program\` on the PATH: install Maven and a JDK" \
      "(11 or 17)" >&2
    exit 2
  }
done

version=$(jar --version) # such as "jar 17.0.8"
[[ $version =~ ^jar\ (11|17)(\.|$) ]] || {
  echo "job_servers.sh: Flink and Spark need Java 11 or 17, and the PATH has $version" >&2
  exit 2
}

# assemble NAME MAIN_CLASS GROUP:ARTIFACT:VERSION...
assemble() {
  local name=$1 main_class=$2 work artifact group version
  shift 2
  [[ ! -f $folder/$name.jar ]] || return 0
  work=$(mktemp -d -- "$folder/.$name.XXXXXX")
  # shellcheck disable=SC2064 # the current folder
  trap "rm -rf -- '$work'" EXIT
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0">'
    echo "<modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
    echo "<artifactId>$name</artifactId><version>1</version><dependencies>"
    for dependency in "$@"; do
      IFS=: read -r group artifact version <<<"$dependency"
      echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId>" \
        "<version>$version</version></dependency>"
    done
    echo "</dependencies></project>"
  } >"$work/pom.xml"
  echo "job_servers.sh: $name, from Maven: some minutes without a cache" >&2
  mvn --file "$work/pom.xml" --quiet --batch-mode --strict-checksums \
    dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$work/libraries" >&2 || {
    echo "job_servers.sh: Maven could not get $name, see above: run it again, or name" \
      "another repository in ~/.m2/settings.xml" >&2
    exit 1
  }

  rm -rf -- "$folder/$name"
  mv -- "$work/libraries" "$folder/$name"
  {
    echo "Main-Class: $main_class"
    # Java 17 closes these packages to Flink and Spark. Source: `env.java.opts.all` in
    # Flink's flink-conf.yaml, Spark's JavaModuleOptions.
    # A line that begins with a space continues the one above; a second one separates.
    echo "Add-Opens:" java.base/{java.io,java.lang,java.lang.invoke,java.lang.reflect} \
      java.base/{java.net,java.nio,java.text,java.time,java.util,java.util.concurrent}
    echo "  java.base/java.util.concurrent.atomic java.base/java.util.concurrent.locks" \
      java.base/{sun.net.util,sun.nio.ch,sun.nio.cs,sun.security.action}
    echo "  java.base/sun.util.calendar"
    echo "Class-Path: "
    (cd -- "$folder" && printf '  %s\n' "$name"/*.jar)
  } >"$work/manifest"
  jar --create --file "$work/$name.jar" --manifest "$work/manifest"
  mv -- "$work/$name.jar" "$folder/$name.jar"
  rm -rf -- "$work"
}

# The newest versions whose jars are in all of Maven's repositories that we tried. Python
# Beam may be newer: the protocol between them is stable.
flink=1.19 flink_beam=2.62.0
spark=3.2.2 spark_beam=2.50.0
assemble "beam-runners-flink-$flink-job-server-$flink_beam" \
  org.apache.beam.runners.flink.FlinkJobServerDriver \
  "org.apache.beam:beam-runners-flink-$flink:$flink_beam" org.slf4j:slf4j-simple:1.7.30
assemble "beam-runners-spark-3-job-server-$spark_beam" \
  org.apache.beam.runners.spark.SparkJobServerDriver \
  "org.apache.beam:beam-runners-spark-3:$spark_beam" \
  org.apache.spark:spark-{core,sql,streaming,catalyst}_2.12:$spark

#!/bin/sh
# Runs ZooKeeper with the libraries that were unpacked beside this script, on the Java of the machine. It is put there when
# they are unpacked: after a change of it remove target/servers/zookeeper.
#   --version                      tells the version
#   [-Dname=value...] CLASS FILE   runs a server that is configured by the file
jars=${0%/*}/../share/java
path=
for jar in zookeeper zookeeper-jute slf4j-api slf4j-simple metrics-core snappy-java commons-io jctools-core \
  netty-buffer netty-codec netty-common netty-handler netty-resolver netty-transport \
  netty-transport-native-epoll netty-transport-native-unix-common; do
  path=$path$jars/$jar.jar:
done
if [ "$1" = --version ]; then
  exec java -cp "$path" org.apache.zookeeper.version.VersionInfoMain
fi
# A small and quick machine: tests start many, and run them for seconds.
exec java -Xms16m -Xmx96m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -cp "$path" "$@"
